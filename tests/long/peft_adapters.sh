#!/bin/sh
# --adapters beside PEFT: the base and the adapters in PeftModel.from_pretrained give the logits of the exported model,
# whatever --train names.
#
#     peft_adapters.sh BUILD
#
# PYTHON (python3) has torch, torchvision, transformers, timm and peft.
export LC_ALL=C # a decimal point in every locale
set -eu
unset CDPATH # with it, cd prints
bin=$(cd "$1" && pwd)/bin python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat >compare.py <<'END'
import sys, warnings
warnings.filterwarnings("ignore")
import timm, torch, torchvision, transformers
from peft import PeftModel
from safetensors.torch import load_file
transformers.logging.set_verbosity_error()
kind, classes = sys.argv[1], int(sys.argv[2])
def make():
    if kind == "bert_micro":
        return transformers.BertForSequenceClassification(transformers.BertConfig(hidden_size=64, num_hidden_layers=2,
            num_attention_heads=4, intermediate_size=256, vocab_size=1000, max_position_embeddings=128, num_labels=classes))
    if kind == "gpt_micro":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=128, n_layer=4, n_head=4, vocab_size=256,
            n_positions=128))
    if kind == "llama_micro":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=128, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, intermediate_size=344, vocab_size=256,
            tie_word_embeddings=True, rms_norm_eps=1e-5))
    if kind == "vit_cifar_small":
        return timm.models.vision_transformer.VisionTransformer(img_size=32, patch_size=4, embed_dim=128, depth=6,
            num_heads=4, num_classes=classes)
    if kind == "resmlp_tiny":
        m = timm.models.mlp_mixer
        return m.MlpMixer(img_size=32, patch_size=4, num_blocks=6, embed_dim=128, mlp_ratio=4, num_classes=classes,
            block_layer=m.ResBlock, norm_layer=m.Affine)
    return torchvision.models.resnet18(num_classes=classes)
def load(model, path):
    state = load_file(path)
    if kind == "gpt_micro":
        state = {"transformer." + name: t for name, t in state.items()}
    shapes = {name: t.shape for name, t in model.state_dict().items()}
    state = {name: t for name, t in state.items() if shapes.get(name, t.shape) == t.shape}  # a head of other classes
    unknown = model.load_state_dict(state, strict=False).unexpected_keys
    assert not unknown, unknown
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model.eval()
torch.manual_seed(1)
x = torch.randint(256, (4, 16)) if kind.startswith(("bert", "gpt", "llama")) else torch.randn(4, 3, 32, 32)
def logits(model):
    with torch.no_grad():
        y = model(x)
    return y if torch.is_tensor(y) else y.logits
with torch.no_grad():
    want, base = logits(load(make(), "full")), logits(load(make(), "base"))
    for seed in (1, 2):
        torch.manual_seed(seed)
        got = logits(PeftModel.from_pretrained(load(make(), "base"), "adapters").eval())
        off, size = float((got - want).abs().max()), float(want.abs().max())
        if not off <= 2e-5 * size:
            sys.exit(f"logits are off by {off:.3g} of {size:.3g}, the base's by {float((base - want).abs().max()):.3g}")
END
failures=0 cases=0
# ARCH LORA TRAIN [OPTION...]
compare() {
    arch=$1 lora=$2 train=$3 images="--train-limit 32 --test-limit 8" program=resmlp classes=10
    shift 3
    case $arch in
    bert*) program=bert images="--train-limit 32 --test-limit 8 --context 16" classes=3 ;;
    gpt* | llama*) program=gpt images="--train-limit 32 --test-limit 8" ;;
    vit*) program=vit ;;
    resnet*) program=resnet images="$images --image-size 32 --classes 10" ;;
    esac
    rm -rf adapters base full
    # shellcheck disable=SC2086
    "$bin/$program-train" --arch "$arch" $images --steps 2 --batch-size 8 --quiet --export base >/dev/null
    # shellcheck disable=SC2086
    "$bin/$program-train" --arch "$arch" $images --batch-size 8 --epochs 1 --lr 0.01 --quiet --import base --lora "$lora" \
        ${train:+--train "$train"} --adapters adapters --export full "$@" >/dev/null 2>notes
    cases=$((cases + 1))
    "$python" compare.py "$arch" $classes && return
    echo "$arch --lora $lora --train $train: $(cat notes)"
    failures=$((failures + 1))
}
compare bert_micro '4:*.attention.*' 'classifier.*,bert.pooler.*' --classes 3
compare bert_micro '4' '' --classes 3
compare bert_micro '4:*.query' '' --classes 3 --lora-alpha 3 --rslora --lora-dropout 0.1
compare bert_micro '4' 'classifier.*' --classes 3
compare bert_micro '4' '*.bias' --classes 3
compare bert_micro '4:*.dense' 'bert.embeddings.*,*.LayerNorm.weight' --classes 3
compare bert_micro '4:classifier' 'classifier.*' --classes 3
compare bert_micro '4:*.attention.*' '*.attention.*' --classes 3
compare gpt_micro '4' ''
compare gpt_micro '4:*.attn.*' 'wte.weight,ln_f.*'
compare gpt_micro '4:*.attn.*' 'wpe.weight,*.bias'
compare gpt_micro '4' 'h.1.mlp.*'
compare llama_micro '4' ''
compare llama_micro '4:*.o_proj' 'model.embed_tokens.*,model.norm.*'
compare llama_micro '4:*.mlp.*' 'model.layers.*layernorm.*,model.layers.0.self_attn.*'
compare vit_cifar_small '4' ''
compare vit_cifar_small '4:*.attn.*' 'cls_token,pos_embed,head.*'
compare vit_cifar_small '4:*.attn.*' 'norm.*,patch_embed.*,blocks.?.norm1.*'
compare resmlp_tiny '4' 'blocks.*.ls1,norm.*,*.linear_tokens.*'
compare resmlp_tiny '4:*.fc1' 'stem.*,*.alpha,head.bias'
compare resnet18 '4:fc' ''
compare resnet18 '4:fc' 'conv1.*,bn1.*,layer1.0.*'
compare resnet18 '4:fc' 'fc.*'
[ $failures = 0 ] || exit 1
echo "peft_adapters: $cases cases passed"
