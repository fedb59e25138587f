#!/usr/bin/env python3
"""Prints as CSV which models of torchvision and timm clprune.Net takes, in a line each: the layers of the net, its gradient and
the losses of three steps beside PyTorch's (SGD with a rate of .001, `exact`, random weights and images, batch 4, no dropout), what is
kept; or what stops it.

    converts.py [--models timm/resnet18 ...] [--no-steps] >converts.csv

    losses      the largest difference of a loss from PyTorch's, relative to it
    gradient    |g - g64| / |g64| of the gradient of all parameters, g64 PyTorch's in double precision
    pytorch     the same of PyTorch in single precision: what rounding alone makes of such a model
    *_mib       what `exact` and `compact` keep for the backward pass
"""

import argparse
import copy
import csv
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import torch
import torch.nn.functional as F

import clprune
from clprune_trace import trace

BATCH, CLASSES, SIDE, STEPS, RATE = 4, 10, 128, 3, 1e-3
MODELS = {
    "torchvision": """alexnet vgg11_bn resnet18 resnext50_32x4d densenet121 googlenet inception_v3 squeezenet1_0
        squeezenet1_1 mobilenet_v2 mobilenet_v3_small shufflenet_v2_x1_0 mnasnet1_0 efficientnet_b0 efficientnet_v2_s
        regnet_y_400mf convnext_tiny vit_b_32 swin_t swin_v2_t maxvit_t fcn_resnet50 deeplabv3_mobilenet_v3_large""",
    "timm": """vit_tiny_patch16_224 deit_tiny_patch16_224 deit3_small_patch16_224 mixer_s16_224 resmlp_12_224 gmlp_s16_224
        gmixer_12_224 convnext_atto convnextv2_atto resnet18 resnetv2_50 nf_resnet26 dm_nfnet_f0 beit_base_patch16_224
        cait_xxs24_224 pvt_v2_b0 levit_128s edgenext_xx_small maxvit_nano_rw_256 ghostnet_100 ghostnetv2_100 mixnet_s
        mobilevit_s densenet121 inception_v3 xception41 res2net50_26w_4s cspresnet50 cspdarknet53 dla34 hrnet_w18_small
        dpn68 vovnet39a ese_vovnet19b_dw repvgg_a0 tinynet_a hardcorenas_a fbnetc_100 mobilenetv4_conv_small rexnet_100
        poolformer_s12 tf_efficientnet_b0 swin_tiny_patch4_window7_224 regnety_004 convmixer_768_32 seresnet50 skresnet18
        eca_resnet33ts efficientformer_l1 visformer_tiny xcit_nano_12_p16_224 crossvit_tiny_240 pit_ti_224 twins_svt_small
        volo_d1_224 mobileone_s0 fastvit_t8 efficientvit_b0 inception_next_atto starnet_s1 vgg11_bn selecsls42b"""}


def create(library, name):
    """A model without random draws, and its images: of SIDE pixels, or of the model's own where it wants those."""
    torch.manual_seed(0)
    side = 224
    if library == "timm":
        import timm
        model = timm.create_model(name, num_classes=CLASSES)
        side = model.default_cfg.get("input_size", (3, side, side))[-1]
    else:
        import torchvision
        more = {"num_classes": CLASSES, "weights": None}
        if name in ("googlenet", "inception_v3"):
            more.update(init_weights=False, aux_logits=False)
            side = 299 if name == "inception_v3" else side
        elif name.startswith(("fcn", "deeplab")):
            more.update(weights_backbone=None)
        model = torchvision.models.get_model(name, **more)
    for module in model.modules():
        for rate in ("p", "drop_prob", "dropout"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
    try:
        x = torch.randn(BATCH, 3, SIDE, SIDE)
        trace(model, x)
    except clprune.Error:
        x = torch.randn(BATCH, 3, side, side)
    return model, x


def train(model, x, y, steps, dtype=torch.float32):
    """The losses of PyTorch, and the gradient of the first step."""
    model, losses, gradient = copy.deepcopy(model).to(dtype).train(), [], None
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(F.cross_entropy(model(x.to(dtype)), y))
        losses[-1].backward()
        if gradient is None:
            gradient = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        optimizer.step()
    return [loss.item() for loss in losses], gradient


def away(got, want):
    """|got - want| / |want|"""
    flat = [torch.cat([g[name].double().flatten() for name in want]) for g in (got, want)]
    return f"{float((flat[0] - flat[1]).norm() / flat[1].norm()):.1e}"


def measure(library, name, steps):
    row = {"library": library, "model": name}
    try:
        model, x = create(library, name)
        row["layers"] = len(trace(model, x).layers)
        if not steps:
            return row
        y = torch.arange(BATCH) % CLASSES
        want, gradient = train(model, x, y, STEPS)
        _, exact = train(model, x, y, 1, torch.float64)
        row["loss"], row["pytorch"] = f"{want[0]:.5f}", away(gradient, exact)
        net = clprune.Net(model, x, keep="exact", optimizer="sgd", lr=RATE, momentum=0, weight_decay=0)
        state = net.state_dict()
        row["gradient"] = away(net.gradients(x, y)[1], exact)
        net.load_state_dict(state)
        row["losses"] = f"{max(abs(net.step(x, y) / loss - 1) for loss in want):.1e}"
        row["exact_mib"] = f"{net.saved_bytes / 2 ** 20:.1f}"
        net.close()
        row["compact_mib"] = f"{clprune.Net(model, x, keep='compact').saved_bytes / 2 ** 20:.1f}"
    except clprune.Error as error:
        row["why"] = str(error).splitlines()[1].strip() if str(error).count("\n") else str(error)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[f"{library}/{name}" for library in MODELS for name in MODELS[library].split()])
    parser.add_argument("--no-steps", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = csv.DictWriter(sys.stdout, ["library", "model", "layers", "loss", "losses", "gradient", "pytorch", "exact_mib", "compact_mib", "why"])
    table.writeheader()
    for name in options.models:
        table.writerow(measure(*name.split("/"), not options.no_steps))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
