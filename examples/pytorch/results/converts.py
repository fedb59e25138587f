#!/usr/bin/env python3
"""Prints as CSV which models of torchvision and timm clprune.Net takes, in a line each: the layers of the net, the losses of
three steps beside PyTorch's (SGD, `exact`, random weights and images, batch 4, no dropout), what is kept; or what stops it.

    converts.py [--models timm/resnet18 ...] [--losses 3] >converts.csv

    worst       the largest difference of a loss from PyTorch's, relative to it
    noise       the same of PyTorch from itself with channels last: what rounding alone makes of such a model
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

BATCH, CLASSES, SIDE = 4, 10, 128
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


def losses_of(model, x, y, steps):
    """PyTorch's."""
    model, losses = copy.deepcopy(model).train(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(F.cross_entropy(model(x), y))
        losses[-1].backward()
        optimizer.step()
    return [float(loss) for loss in losses]


def worst(got, want):
    return max(abs(a / b - 1) for a, b in zip(got, want))


def measure(library, name, steps):
    row = {"library": library, "model": name}
    try:
        model, x = create(library, name)
        row["layers"] = len(trace(model, x).layers)
        if steps == 0:
            return row
        y = torch.arange(BATCH) % CLASSES
        want = losses_of(model, x, y, steps)
        row["loss"] = f"{want[0]:.5f}"
        row["noise"] = f"{worst(losses_of(model.to(memory_format=torch.channels_last), x, y, steps), want):.1e}"
        model.to(memory_format=torch.contiguous_format)
        net = clprune.Net(model, x, keep="exact", optimizer="sgd", lr=0.01, momentum=0, weight_decay=0)
        row["worst"] = f"{worst([net.step(x, y) for _ in range(steps)], want):.1e}"
        row["exact_mib"] = f"{net.saved_bytes / 2 ** 20:.1f}"
        net.close()
        row["compact_mib"] = f"{clprune.Net(model, x, keep='compact').saved_bytes / 2 ** 20:.1f}"
    except clprune.Error as error:
        row["why"] = str(error).splitlines()[1].strip() if str(error).count("\n") else str(error)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=[f"{library}/{name}" for library in MODELS for name in MODELS[library].split()])
    parser.add_argument("--losses", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = csv.DictWriter(sys.stdout, ["library", "model", "layers", "loss", "worst", "noise", "exact_mib", "compact_mib", "why"])
    table.writeheader()
    for name in options.models:
        table.writerow(measure(*name.split("/"), options.losses))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
