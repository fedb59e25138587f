#!/usr/bin/env python3
"""Prints as CSV which models of torchvision, timm and transformers clprune.Net takes, in a line each: the layers of the net, its
gradient and the losses of three steps beside PyTorch's (SGD with a rate of .001, `exact`, random weights and images or tokens, batch
4, no dropout), what is kept; or what stops it. Those of transformers have two blocks of 32 features, or two of an encoder and two
of a decoder, and a linear layer on the mean of their last hidden state.

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
from clprune.tracing.trace import trace

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
        volo_d1_224 mobileone_s0 fastvit_t8 efficientvit_b0 inception_next_atto starnet_s1 vgg11_bn selecsls42b
        coat_tiny coat_lite_tiny botnet26t_256 halonet26t lambda_resnet26t bat_resnext26ts eva02_tiny_patch14_224 resnest14d
        convit_tiny crossvit_9_240 davit_tiny fastvit_sa12 ghostnetv3_050 mobilevitv2_050 nest_tiny poolformerv2_s12 repvit_m0_9
        sequencer2d_s tnt_s_patch16_224 twins_pcpvt_small tresnet_m dpn48b hgnetv2_b0 focalnet_tiny_srf gcvit_xxtiny
        efficientformerv2_s0 hiera_tiny_224 mambaout_femto mvitv2_tiny tiny_vit_5m_224 efficientvit_m0 repghostnet_050 rdnet_tiny
        swiftformer_xs shvit_s1 vit_relpos_small_patch16_224 vitamin_small_224 swinv2_cr_tiny_224 nextvit_small nasnetalarge
        pnasnet5large inception_v4 inception_resnet_v2 legacy_seresnet18 legacy_xception gcresnet33ts caformer_s18
        coatnet_0_rw_224 fasternet_t0 lcnetv2_small cspnext_tiny lowformer_b0 iformer_t efficientvim_m1 csatv2 cpubone_nano
        vit_tiny_r_s16_p8_224 levit_conv_128s mobilenetv5_300m vit_tiny_patch16_dinov3_qkvb hieradet_small""",
    "transformers": """Albert Bart Bert Blenderbot Bloom CLIPText CLIPVision Camembert Codegen Cohere ConvNext DebertaV2 DeiT
        Dinov2 DistilBert Electra Ernie Esm Falcon GPT2 GPTJ GPTNeo GPTNeoX Gemma Gemma2 Granite LayoutLM Llama MBart MPNet MT5
        Marian Mistral MobileViT ModernBert Mpt OPT Olmo Olmo2 PLBart Pegasus Phi Phi3 Pvt Qwen2 Qwen3 ResNet Roberta Segformer
        SiglipVision SmolLM3 StableLm Starcoder2 Swin T5 UMT5 ViT Whisper XLMRoberta"""}
DECODERS = {"Bart", "Blenderbot", "MBart", "MT5", "Marian", "PLBart", "Pegasus", "UMT5", "Whisper"}

# Of transformers' configurations, by any of these names; others by model.
SMALL = {"vocab_size": 60, "hidden_size d_model n_embd dim": 32, "num_hidden_layers num_layers n_layer n_layers": 2,
         "encoder_layers decoder_layers num_decoder_layers": 2, "encoder_attention_heads decoder_attention_heads": 4,
         "encoder_ffn_dim decoder_ffn_dim": 64, "decoder_start_token_id": 1, "num_mel_bins": 8, "max_source_positions": 12,
         "num_attention_heads num_heads n_head n_heads": 4, "intermediate_size d_ff ffn_dim hidden_dim": 64, "use_cache": False,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "image_size": 32, "patch_size": 8, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
IN_STAGES = {"hidden_sizes": [16, 32, 32, 32], "depths": [1] * 4, "num_attention_heads": [1, 2, 2, 2], "image_size": 64,
             "patch_size": None}
OF_MODEL = {
    "Albert": {"embedding_size": 16}, "Codegen": {"rotary_dim": 4}, "ConvNext": {"hidden_sizes": [16, 32], "depths": [1, 1],
    "num_stages": 2, "patch_size": None}, "DebertaV2": {"relative_attention": True,
    "position_buckets": 8, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm", "share_att_key": True, "conv_kernel_size": 3,
    "conv_act": "gelu", "position_biased_input": False}, "Electra": {"embedding_size": 16}, "GPTJ": {"rotary_dim": 4},
    "Esm": {"vocab_size": 60, "mask_token_id": 2, "pad_token_id": 0, "position_embedding_type": "rotary"}, "GPTNeo": {"attention_types": [[["global", "local"], 1]]},
    "Gemma": {"head_dim": 8}, "Gemma2": {"head_dim": 8}, "Qwen3": {"head_dim": 8}, "OPT": {"word_embed_proj_dim": 32},
    "Phi": {"num_key_value_heads": 4}, "Pvt": IN_STAGES, "Segformer": IN_STAGES, **dict.fromkeys(("T5", "MT5", "UMT5"), {"d_kv": 8}),
    "MobileViT": {"image_size": 128, "patch_size": 2}, "ResNet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}, "Swin": {"patch_size": 4,
    "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}}


class OfDecoder(torch.nn.Module):
    """The same of an encoder's input and a decoder's."""

    def __init__(self, model):
        super().__init__()
        self.model, self.head = model, torch.nn.Linear(model.config.d_model, CLASSES)

    def example(self):
        first = torch.randn(BATCH, 8, 24) if self.model.main_input_name == "input_features" else torch.randint(3, 60, (BATCH, 12))
        return first, torch.randint(3, 60, (BATCH, 9))

    def forward(self, x, tokens):
        given = {self.model.main_input_name: x, "decoder_input_ids": tokens}
        return self.head(self.model(**given).last_hidden_state.mean(1))


class OfMean(torch.nn.Module):
    """A linear layer on the mean of the last hidden state."""

    def __init__(self, model):
        super().__init__()
        self.model, self.images = model, model.main_input_name == "pixel_values"
        with torch.no_grad():
            features = self.hidden(self.example()).shape[-1]
        self.head = torch.nn.Linear(features, CLASSES)

    def example(self):
        side = self.model.config.image_size if isinstance(getattr(self.model.config, "image_size", None), int) else 64
        return torch.randn(BATCH, 3, side, side) if self.images else torch.randint(3, 60, (BATCH, 12))

    def hidden(self, x):
        state = (self.model(pixel_values=x) if self.images else self.model(input_ids=x)).last_hidden_state
        return state.mean(1) if state.dim() == 3 else state.mean((2, 3))

    def forward(self, x):
        return self.head(self.hidden(x))


def of_transformers(name):
    import transformers
    transformers.logging.set_verbosity_error()
    kind = getattr(transformers, name.replace("Codegen", "CodeGen") + "Config")
    usual, given = kind(), {}
    for names, value in SMALL.items():
        given.update({key: value for key in names.split() if not isinstance(getattr(usual, key, []), (list, tuple, type(None)))})
    given.update({key: 0.0 for key, value in vars(usual).items() if "drop" in key and isinstance(value, float)})
    given.update(OF_MODEL.get(name, {}))
    config = kind(**{key: value for key, value in given.items() if value is not None})
    make = getattr(transformers, "T5EncoderModel" if name == "T5" else f"{name}Model", transformers.AutoModel.from_config)
    model = make(config).eval()
    return (OfDecoder if name in DECODERS else OfMean)(model)


def create(library, name):
    """A model without random draws, and its images: of SIDE pixels, or of the model's own where it wants those."""
    torch.manual_seed(0)
    side = 224
    if library == "transformers":
        model = of_transformers(name)
        return model, model.example()
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
        trace(model, (x,))
    except clprune.Error:
        x = torch.randn(BATCH, 3, side, side)
    return model, x


def train(model, x, y, steps, dtype=torch.float32):
    """The losses of PyTorch, and the gradient of the first step."""
    model, losses, gradient, parts = copy.deepcopy(model).to(dtype).train(), [], None, x if isinstance(x, tuple) else (x,)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(F.cross_entropy(model(*(part.to(dtype) if part.is_floating_point() else part for part in parts)), y))
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
        row["layers"] = len(trace(model, x if isinstance(x, tuple) else (x,)).layers)
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
