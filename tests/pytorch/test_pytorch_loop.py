"""Tests of whole training loops with clprune.Net and clprune.NetModule against PyTorch: resumed runs,
copies, other processes, and what PyTorch's users do with modules. Run by test_pytorch.sh."""

import copy
import io
import os
import pickle
import sys
import tempfile
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from pytorch_case import error

import clprune
from clprune.net.changes import structure_of
from clprune.net.run import optimizers

if int(torch.__version__.split(".")[0]) < 2:
    print("skipped: clprune.Net needs PyTorch 2.0", file=sys.stderr)
    sys.exit(77)

CLASSES = 10


def own_memory(net):
    return {name: size for name, size in net.memory().items() if not name.startswith("process")}


def images_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, CLASSES))


def vectors_net(rate=0.0):
    """Weights of more than 4096 elements, whose optimizer state can have 8 bits."""
    return nn.Sequential(nn.Linear(48, 96), nn.LayerNorm(96), nn.GELU(), nn.Dropout(rate),
                         nn.Linear(96, CLASSES))


def batch_of(model, count=6):
    x = torch.randn(count, 3, 8, 8) if isinstance(model[0], nn.Conv2d) else torch.randn(count, 48)
    return x, torch.randint(CLASSES, (count,))


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        warnings.simplefilter("error", UserWarning)

    def assert_state(self, got, want, bound=0.0):
        self.assertEqual(set(got), set(want))
        for name, value in want.items():
            if bound == 0:
                self.assertTrue(torch.equal(got[name], value), name)
            else:
                away = float((got[name].double() - value.double()).norm())
                self.assertLessEqual(away, bound * (0.1 + float(value.double().norm())), name)


# ---- Net -------------------------------------------------------------------------------------------


def through_a_file(net):
    """The same net with the state that it had; a resumed run has a new one, with the same."""
    file = io.BytesIO()
    torch.save({"model": net.state_dict(), "optimizer": net.optimizer_state()}, file)

    def load():
        file.seek(0)
        state = torch.load(file, weights_only=True)
        net.load_state_dict(state["model"])
        net.load_optimizer_state(state["optimizer"])
        return net

    return load


def through_a_new_net(net, model, x, how):
    def load():
        made = clprune.Net(model, x, **{**how, "seed": 9, "lr": 5.0})
        made.load_state_dict(state["model"])
        made.load_optimizer_state(state["optimizer"])
        return made

    state = {"model": net.state_dict(), "optimizer": net.optimizer_state()}
    return load


class Resumed(Case):
    def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(self):
        tied = vectors_net()
        tied[0].bias = tied[1].bias
        tied.register_buffer("unused", torch.randn(3))
        frozen = images_net()
        frozen[0].weight.requires_grad_(False)
        file = lambda net, *_: through_a_file(net)
        copied = lambda net, *_: (lambda made: lambda: made)(copy.deepcopy(net))
        pickled = lambda net, *_: (lambda data: lambda: pickle.loads(data))(pickle.dumps(net))
        dropped = vectors_net(0.2)
        for model, keep, optimizer, how, ways in (
                (dropped, "exact", "sgd", {}, (file, through_a_new_net)),
                (dropped, "compact", "adamw", {}, (file, pickled)),
                *((dropped, "least", name, {}, (file, copied)) for name in optimizers()),
                (images_net(), "compact", "adamw", {}, (file, pickled)),
                (frozen, "exact", "sgd", dict(momentum=0.0), (file,)), (tied, "compact", "adamw", {}, (file,)),
                (vectors_net(), "least", "adamw8", dict(loss=nn.CrossEntropyLoss(label_smoothing=0.1)),
                 (file, pickled))):
            how = dict(keep=keep, optimizer=optimizer, seed=3, weight_decay=0.01, **how)
            x, y = batch_of(model)
            net = clprune.Net(model, x, **how)
            for _ in range(2):
                net.step(x, y)
            net.lr = 0.02
            before = net.state_dict()
            loads = [way(net, model, x, how) for way in ways]
            wanted = [net.step(x, y) for _ in range(3)]
            after, out, memory = net.state_dict(), net(x), own_memory(net)
            for load in loads:
                with self.subTest(load.__qualname__, **how):
                    again = load()
                    self.assert_state(again.state_dict(), before)
                    self.assertEqual([again.step(x, y) for _ in range(3)], wanted)
                    self.assert_state(again.state_dict(), after)
                    self.assertTrue(torch.equal(again(x), out))
                    self.assertEqual((again.steps, again.lr, again.seed), (5, 0.02, 3))
                    self.assertEqual(own_memory(again), memory)
                    again.close() if again is not net else None
            net.close()

    def test_a_state_that_does_not_fit_changes_nothing(self):
        model = vectors_net()
        x, y = batch_of(model)
        net, other = clprune.Net(model, x), clprune.Net(model, x, optimizer="sgd8")
        for _ in range(2):
            net.step(x, y), other.step(x, y)
        state, coded = net.optimizer_state(), other.optimizer_state()

        def changed(state, name, **values):
            return {**state, "state": {**state["state"], name: {**state["state"][name], **values}}}

        for target, wrong, text in (
                (net, coded, "of the optimizer sgd8, expected adamw"),
                (net, {**state, "state": {}}, "the state m of 0.weight is missing, expected torch.float32"),
                (net, changed(state, "4.bias", v=torch.zeros(3)), r"v of 4.bias is torch.float32 of \(3,\)"),
                (other, changed(coded, "0.weight", **{"v.codes": torch.zeros(8, dtype=torch.uint8)}),
                 r"v.codes of 0.weight is torch.uint8 of \(8,\), expected torch.uint8 of \(4608,\)"),
                (net, changed(state, "4.bias", m=torch.zeros(10).int()), "m of 4.bias is torch.int32")):
            before = target.optimizer_state()
            with self.assertRaisesRegex(ValueError, text):
                target.load_optimizer_state(wrong)
            after = target.optimizer_state()
            self.assertEqual(after["steps"], 2)
            for name, values in before["state"].items():
                self.assert_state(after["state"][name], values)


class Gradients(Case):
    def test_they_are_dropped_part_by_part_once_each_has_moved_its_parameters(self):
        tied = vectors_net()
        tied[0].bias = tied[1].bias
        for model in images_net(), tied:
            x, y = batch_of(model)
            for optimizer, drops in ("sgd", True), ("adamw8", True), ("lamb", False), (None, True):
                net = clprune.Net(model, x, keep="exact", optimizer=optimizer, momentum=0.0, lr=0.25)
                self.assertEqual(net.memory()["gradients"] == 0, drops, optimizer)
                if optimizer == "sgd":
                    before, (_, grads) = net.state_dict(), net.gradients(x, y)
                    self.assertEqual(list(grads), list(dict(model.named_parameters())))
                    net.step(x, y)
                    after = net.state_dict()
                    self.assert_state({name: after[name] for name in grads},
                                      {name: before[name] - 0.25 * grad for name, grad in grads.items()}, 1e-6)
                net.close()

    def test_an_interrupt_between_two_parts_ends_the_step(self):
        model = images_net()
        x, y = batch_of(model)
        net = clprune.Net(model, x)
        update, calls = net._run.update, []

        def interrupts(*arguments):
            calls.append(arguments)
            if len(calls) == 2:
                raise KeyboardInterrupt
            update(*arguments)

        net._run.update = interrupts
        with self.assertRaises(KeyboardInterrupt):
            net.step(x, y)
        self.assertEqual((len(calls), net.steps), (2, 0))
        net._run.update = update
        self.assertGreater(net.step(x, y), 0)
        self.assertEqual(net.steps, 1)


class Losses(Case):
    def test_any_loss(self):
        """Functions of PyTorch, and forward and backward with a gradient."""
        target = torch.randn(6, CLASSES)
        for make, losses in ((images_net, ((F.l1_loss, target), (lambda out, _: out.logsumexp(1).sum(), None))),
                             (vectors_net, ((nn.SmoothL1Loss(), target), (F.cross_entropy, None)))):
            model = make()
            x, y = batch_of(model)
            alone = clprune.Net(model, x, keep="exact", loss=None)
            for loss, given in losses:
                given = y if loss is F.cross_entropy else given
                whole = copy.deepcopy(model).train()
                value = loss(whole(x), given)
                value.backward()
                want = {name: p.grad for name, p in whole.named_parameters()}
                net = clprune.Net(model, x, keep="exact", loss=loss)
                got, grads = net.gradients(x, given)
                self.assertLess(abs(got - float(value.detach())), 1e-4)
                self.assert_state(grads, want, 1e-4)
                alone.load_state_dict(model.state_dict())
                out = alone.forward(x).requires_grad_()
                loss(out, given).backward()
                self.assert_state(alone.backward(out.grad), want, 1e-4)
                first = net.step(x, given)
                for _ in range(8):
                    last = net.step(x, given)
                self.assertLess(last, first)
                net.close()
            alone.close()

    def test_outputs_that_are_images(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))
        x, y = torch.randn(4, 3, 8, 6), torch.randn(4, 2, 8, 6)
        F.l1_loss(model(x[:3]), y[:3]).backward()
        _, grads = clprune.Net(model, x, keep="exact", loss=F.l1_loss).gradients(x[:3], y[:3])
        self.assert_state(grads, {name: p.grad for name, p in model.named_parameters()}, 1e-4)

    def test_calls_in_a_wrong_order(self):
        model = vectors_net()
        x, y = batch_of(model)
        dy = torch.randn(6, CLASSES)
        plain, alone = clprune.Net(model, x), clprune.Net(model, x, loss=None, optimizer=None)
        idle = clprune.Net(model, x, optimizer=None)

        def twice():
            alone.forward(x)
            alone.backward(dy)
            alone.backward(dy)

        def after_inference():
            alone.forward(x)
            alone(x)
            alone.backward(dy)

        for call, text in ((lambda: plain.backward(dy), "the net has the loss cross_entropy; expected a"),
                           (lambda: alone.backward(dy), "call forward first"), (twice, "one backward pass"),
                           (after_inference, "call forward first"),
                           (lambda: alone.gradients(x, y), "the net has no loss; call forward"),
                           (lambda: idle.step(x, y), "the net has no optimizer")):
            with self.assertRaisesRegex(clprune.Error, text):
                call()
        alone.forward(x[:4])
        with self.assertRaisesRegex(ValueError, r"the gradient is \(6, 10\), expected \(4, 10\)"):
            alone.backward(dy)
        self.assertEqual(idle.memory()["optimizer"], 0)
        with self.assertRaisesRegex(ValueError, "loss is 'l1', expected cross_entropy, mse, smooth_l1, bce, soft_cross_entropy, a function or None"):
            clprune.Net(model, x, loss="l1")


def surgery():
    """What may happen to a model: name, what does it, and the text of it."""
    return {
        "hook of a parameter": (lambda m: m[0].weight.register_hook(lambda g: 2 * g),
                                "hooks of 0.weight is 1, and was 0"),
        "frozen later": (lambda m: m[8].requires_grad_(False),
                         "requires_grad of 8.weight is False, and was True"),
        "hook of a module": (lambda m: m[2].register_forward_hook(lambda *a: None), "hooks of 2 is 1"),
        "hook of the model": (lambda m: m.register_full_backward_hook(lambda *a: None),
                              "hooks of the model is 1"),
        "another module": (lambda m: m.__setitem__(2, nn.Tanh()), "class of 2 is Tanh, and was ReLU"),
        "another size": (lambda m: m.__setitem__(8, nn.Linear(12, 5)), "out_features of 8 is 5, and was 10"),
        "another setting": (lambda m: setattr(m[1], "momentum", 0.5), "momentum of 1 is 0.5, and was 0.1"),
        "one module more": (lambda m: m.append(nn.Tanh()), "9 is new"),
        "another parameter": (lambda m: setattr(m[4], "bias", nn.Parameter(torch.zeros(3))),
                              r"shape of 4.bias is \(3,\), and was \(12,\)"),
        "a parametrisation": (lambda m: nn.utils.parametrizations.orthogonal(m[8]),
                              "class of 8 is ParametrizedLinear"),
        "one module less": (lambda m: m.__delitem__(7), "class of 7 is")}


class Changed(Case):
    def test_a_net_warns_of_a_model_that_has_changed(self):
        model = images_net()
        x, y = batch_of(model)
        net = clprune.Net(model, x)
        net.step(x, y)
        for name, (change, text) in surgery().items():  # one after the other
            with self.subTest(name):
                change(model)
                with self.assertWarnsRegex(UserWarning, f"the model has changed.*{text}"):
                    net.step(x, y)
                net.step(x, y)  # once
        net.close()

    def test_what_a_net_cannot_do_from_the_start(self):
        x = batch_of(images_net())[0]
        for change, text in ((lambda m: m[0].weight.register_hook(lambda g: g), "0.weight has hooks"),
                             (lambda m: m[2].register_full_backward_hook(lambda *a: None), "2 has hooks"),
                             (lambda m: m.register_forward_hook(lambda *a: None), "the model has hooks"),
                             (lambda m: nn.DataParallel(m), "is in a DataParallel; expected .*.module"),
                             (torch.compile, "is in a OptimizedModule; expected .*._orig_mod")):
            model = images_net()
            made = change(model)
            with self.assertRaisesRegex(clprune.Error, text):
                clprune.Net(made if isinstance(made, nn.Module) else model, x)


# ---- NetModule -------------------------------------------------------------------------------------


def train(model, x, y, steps=3, optimizer=None, loss=F.cross_entropy, after=lambda: None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        after()
        optimizer.step()
        losses.append(value.item())
    return losses


def accumulated(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        for part in slice(0, 4), slice(4, 6):
            (F.cross_entropy(model(x[part]), y[part], reduction="sum") / len(x)).backward()
        optimizer.step()


def schedules(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=5)
    losses = []
    for _ in range(4):
        losses += train(model, x, y, 1, optimizer)
        schedule.step()
    return losses


def two_passes(model, x, y):
    """Both outputs in one loss, as of a siamese net or of real and false images."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        a, b = model(x), model(x.flip(0))
        (F.cross_entropy(a, y) + (a - b).square().mean() + F.cross_entropy(model(x[:3]), y[:3])).backward()
        optimizer.step()


def backward_twice(model, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    loss.backward()
    return loss.item()


def partly_frozen(model, x, y):
    train(model, x, y)
    model.get_submodule("8").requires_grad_(False)
    train(model, x, y)
    model.get_submodule("8").requires_grad_(True)
    return train(model, x, y)


def hooks_of_parameters(model, x, y):
    handles = [model.get_submodule("0").weight.register_hook(lambda g: 2 * g)]
    def triple(p):
        p.grad.mul_(3)

    if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        handles.append(model.get_submodule("8").bias.register_post_accumulate_grad_hook(triple))
    train(model, x, y)
    for handle in handles:
        handle.remove()


def averaged(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    mean = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        train(model, x, y, 1, optimizer, after=lambda: mean.update_parameters(model))
    out = mean.eval()(x)
    model.load_state_dict(mean.module.state_dict())
    train(mean.module.train(), x, y, 1)  # a copy trains, too
    return out.norm().item()


def closures(model, x, y):
    optimizer = torch.optim.LBFGS(model.parameters(), 0.1, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return optimizer.step(closure).item()


def sharpness_aware(model, x, y):
    for _ in range(2):
        F.cross_entropy(model(x), y).backward()
        step = [(p, 0.05 * p.grad) for p in model.parameters()]
        model.zero_grad()
        with torch.no_grad():
            for p, away in step:
                p.add_(away)
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, away in step:
                p.sub_(away)
                p.data.sub_(0.05 * p.grad)
        model.zero_grad()


def distilled(model, x, y):
    torch.manual_seed(4)
    teacher = images_net()
    return train(model, x, y, loss=lambda out, y: F.kl_div(
        out.log_softmax(1), teacher(x).detach().softmax(1), reduction="batchmean"))


def gradients_alone(model, x, y):
    grads = torch.autograd.grad(F.cross_entropy(model(x), y), [*model.get_submodule("8").parameters()])
    with torch.no_grad():
        for p, grad in zip(model.get_submodule("8").parameters(), grads):
            p.sub_(grad)


def checkpoints(model, x, y):
    """The net is left alone: its pass does not run again, and running statistics move once."""
    def checkpointed(x):
        if not isinstance(model, clprune.NetModule):
            return model(x)
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)

    checkpointed.parameters = model.parameters
    return train(checkpointed, x, y)


def other_parameters(model, x, y):
    """As functional_call has them: computed from the model's."""
    scaled = {name: 0.9 * p for name, p in model.named_parameters()}
    F.cross_entropy(torch.func.functional_call(model, scaled, (x,)), y).backward()
    with torch.no_grad():
        for p in model.parameters():
            p.sub_(0.1 * p.grad)


def validation_between(model, x, y):
    """Passes in eval(), and without gradients, between a forward pass and its backward pass."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        with torch.no_grad():
            model(x.flip(0))
        seen = model.eval()(x[:2]).detach()
        model.train()
        loss.backward()
        optimizer.step()
    return seen.norm().item()


def penalties(model, x, y):
    return train(model, x, y, loss=lambda out, y: F.cross_entropy(out, y) + 0.01 * sum(
        p.square().sum() for p in model.parameters()) + 0.1 * out.square().mean())


def scaled_losses(model, x, y):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(3):
        optimizer.zero_grad()
        (2.0 ** 10 * F.cross_entropy(model(x), y)).backward()
        for p in model.parameters():
            p.grad.div_(2.0 ** 10)
        optimizer.step()


def groups(model, x, y):
    optimizer = torch.optim.Adam([{"params": model.get_submodule("0").parameters(), "lr": 0.0},
                                  {"params": [*model.get_submodule("4").parameters(), *model.get_submodule("8").parameters()]}], 0.01)
    return train(model, x, y, 3, optimizer)


def states(model, x, y):
    """Loaded in the middle, by value and by assignment."""
    first = copy.deepcopy(model.state_dict())
    train(model, x, y)
    model.load_state_dict(first)
    train(model, x, y, 1)
    if int(torch.__version__.split(".")[1]) >= 1:
        model.load_state_dict(first, assign=True)
    for p in model.parameters():
        p.data = p.data * 0.9
    return train(model, x, y)


LOOPS = (train, accumulated, schedules, two_passes, backward_twice, partly_frozen, hooks_of_parameters,
         averaged, closures, sharpness_aware, distilled, gradients_alone, checkpoints, other_parameters,
         validation_between, penalties, scaled_losses, groups, states)


class Modules(Case):
    def test_loops_are_those_of_pytorch(self):
        model = images_net()
        x, y = batch_of(model)
        other, first = copy.deepcopy(model), copy.deepcopy(model.state_dict())
        module = clprune.NetModule(other, x, keep="exact")
        self.assertEqual([name for name, _ in module.named_parameters()],
                         [name for name, _ in model.named_parameters()])
        for loop in LOOPS:
            with self.subTest(loop.__name__):
                for m in model, module:
                    m.load_state_dict(first)
                    m.train().zero_grad()
                want, got = loop(model, x, y), loop(module, x, y)
                if want is not None:
                    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
                self.assert_state(module.state_dict(), model.state_dict(), 2e-3)
                self.assert_state(other.state_dict(), module.state_dict())
                grads = [{n: p.grad for n, p in m.named_parameters() if p.grad is not None}
                         for m in (module, model)]
                self.assert_state(*grads, 5e-3)
        module.net.close()

    def test_clipping(self):
        model = vectors_net()
        x, y = batch_of(model)
        module = clprune.NetModule(copy.deepcopy(model), x, keep="exact")
        for m in model, module:
            train(m, x, y, after=lambda: nn.utils.clip_grad_norm_(m.parameters(), 0.1))
        self.assert_state(module.state_dict(), model.state_dict(), 1e-3)

    def test_an_adversarial_pair(self):
        """Generator and discriminator are nets, of which the latter gives its input a gradient, if asked to."""
        def loop(generator, judge, x):
            first = torch.optim.SGD(generator.parameters(), 0.05)
            second = torch.optim.SGD(judge.parameters(), 0.05)
            for _ in range(3):
                false = generator(x)
                second.zero_grad()
                (F.softplus(-judge(x)).mean() + F.softplus(judge(false.detach())).mean()).backward()
                second.step()
                first.zero_grad()
                F.softplus(-judge(false)).mean().backward()
                first.step()

        pair = [nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 16)),
                nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 1))]
        x = torch.randn(6, 16)
        start = copy.deepcopy(pair)
        loop(*pair, x)
        for asked in False, True:
            nets = [clprune.NetModule(copy.deepcopy(model), x, keep="exact", input_grads=asked) for model in start]
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                loop(*nets, x)
            self.assertEqual(any("the input needs a gradient" in str(warning.message) for warning in told), not asked)
            for net, model in zip(nets, pair):
                self.assert_state(net.state_dict(), model.state_dict(), 1e-3)

    def test_gradients_by_inputs(self):
        """Of images in both orders, rows and a row, beside tokens; copies, and passes that run again, have them, too."""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.rows, self.row = nn.Conv2d(3, 8, 3, 2, 1), nn.Linear(4, 8), nn.Linear(5, 8)
                self.words, self.head = nn.Embedding(30, 8), nn.Linear(8, CLASSES)

            def forward(self, images, words, rows, row):
                x = self.conv(images).relu().mean((2, 3)) * torch.sigmoid(self.row(row))
                return self.head(x + self.rows(rows).tanh().mean(1) + self.words(words).mean(1))

        model = Model()
        x = [torch.randn(5, 3, 8, 6), torch.randint(30, (5, 7)), torch.randn(5, 6, 4), torch.randn(5, 5)]
        net = clprune.Net(model, tuple(x), keep="exact", loss=None, optimizer=None, input_grads=True)
        module = clprune.NetModule(model, tuple(x), keep="exact", input_grads=True)
        for last in False, True:
            x[0] = x[0].to(memory_format=torch.channels_last if last else torch.contiguous_format)
            found = []
            for run in model, module, copy.deepcopy(module):
                leaves = [part.detach().clone().requires_grad_(part.is_floating_point()) for part in x]
                run.zero_grad()
                y = run(*leaves)
                run(*(part.flip(0) for part in x))
                y.square().sum().backward()
                found.append({str(i): leaf.grad for i, leaf in enumerate(leaves) if leaf.grad is not None})
            y = net.forward(tuple(x))
            net.backward(2 * y)
            found.append({str(i): grad for i, grad in enumerate(net.input_grads) if grad is not None})
            for other in found[1:]:
                self.assert_state(other, found[0], 1e-5)

    def test_penalties_on_gradients_of_the_input(self):
        model = vectors_net()
        x = batch_of(model)[0]
        module = clprune.NetModule(copy.deepcopy(model), x)
        grads = []
        warnings.simplefilter("ignore", UserWarning)
        for m in model, module:
            leaf = x.clone().requires_grad_()
            slope, = torch.autograd.grad(m(leaf).sum(), leaf, create_graph=True)
            (slope.norm(dim=1) - 1).square().mean().backward()
            grads.append({n: p.grad for n, p in m.named_parameters() if p.grad is not None})
        self.assert_state(*grads, 1e-5)

    def test_dropout_follows_the_generator_of_pytorch(self):
        model = vectors_net(0.5)
        x, y = batch_of(model)
        module = clprune.NetModule(model, x, keep="least")

        def grads(seed):
            torch.manual_seed(seed)
            module.zero_grad()
            out = module(x)
            module(x.flip(0))  # the first pass runs again, with the same draws
            F.cross_entropy(out, y).backward()
            return {n: p.grad.clone() for n, p in module.named_parameters()}

        first, again, other = grads(3), grads(3), grads(4)
        self.assert_state(again, first)
        self.assertGreater(error(other["0.weight"], first["0.weight"]), 0.1)

    def test_copies_and_pickles(self):
        model = images_net()
        x, y = batch_of(model)
        module = clprune.NetModule(model, x)
        for way in copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)):
            torch.manual_seed(5)
            train(module, x, y, 1)
            again = way(module)
            self.assert_state(again.state_dict(), module.state_dict())
            results = []
            for m in again, module:
                torch.manual_seed(6)
                results.append(train(m, x, y))
            self.assertEqual(*results)
            self.assert_state(again.state_dict(), module.state_dict())
        self.assertTrue(torch.equal(module.eval()(x), model.eval()(x)))
        self.assertEqual(module.net.saved_bytes, again.net.saved_bytes)

    def test_what_stays_impossible_is_an_error(self):
        def second_derivatives(m, x, y):
            grads = torch.autograd.grad(F.cross_entropy(m(x), y), [*m.parameters()], create_graph=True)
            sum(g.square().sum() for g in grads).backward()

        def changed_between(m, x, y):
            first, _ = m(x).sum(), m(x)
            with torch.no_grad():
                m.get_submodule("0").weight.mul_(2)
            first.backward()

        def again(m, x, y):
            loss = m(x).sum()
            loss.backward()
            loss.backward()

        model = images_net()
        x, y = batch_of(model)
        module = clprune.NetModule(model, x).train()
        for text, call in (
                ("no second derivatives.*train the model itself", second_derivatives),
                ("modified by an inplace operation", changed_between),
                ("Trying to backward through the graph a second time", again),
                ("no batched gradients", lambda m, x, y: torch.autograd.grad(
                    m(x), m.get_submodule("8").weight, torch.ones(2, 6, CLASSES), is_grads_batched=True)),
                ("1 is in eval\\(\\) alone", lambda m, x, y: (m.get_submodule("1").eval(), m(x))),
                ("with N from 1 to 6", lambda m, x, y: m.train()(torch.cat([x, x]))),
                ("the net is closed", lambda m, x, y: (m.net.close(), m(x)))):
            with self.assertRaisesRegex((RuntimeError, ValueError), text):
                call(module, x, y)
        for name, (change, text) in surgery().items():
            if name not in ("hook of a parameter", "frozen later"):
                module = copy.deepcopy(module)
                change(module._own)
                with self.assertRaisesRegex(clprune.Error, f"{text}.*make a new one"):
                    module(x)
                module._structure = structure_of(module._own, False)
        model = images_net()
        model.get_submodule("0").weight.requires_grad_(False)
        module = clprune.NetModule(model, x).train()
        model.get_submodule("0").weight.requires_grad_(True)
        with self.assertRaisesRegex(clprune.Error, "0.weight was frozen when the NetModule was made"):
            module(x).sum().backward()
        with self.assertRaises(TypeError):
            clprune.NetModule(model, x, loss="mse")


# ---- processes -------------------------------------------------------------------------------------


def in_process(rank, net, module, x, y, folder):
    """Of two processes: the net and the module that they are given, and DDP of it on half of the batch."""
    losses = [net.step(x, y) for _ in range(2)]
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank,
                                         world_size=2)
    shared = nn.parallel.DistributedDataParallel(copy.deepcopy(module))
    half = slice(3 * rank, 3 * rank + 3)
    train(shared, x[half], y[half])
    torch.save((losses, net.state_dict(), shared.module.state_dict()), f"{folder}/{rank}")
    torch.distributed.destroy_process_group()


class Processes(Case):
    def test_spawned_processes_and_ddp(self):
        model = vectors_net()
        x, y = batch_of(model)
        net = clprune.Net(model, x, keep="least", seed=2)
        net.step(x, y)
        module = clprune.NetModule(copy.deepcopy(model), x, keep="exact")
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(in_process, (net, module, x, y, folder), 2)
            results = [torch.load(os.path.join(folder, str(rank))) for rank in range(2)]
        wanted = [net.step(x, y) for _ in range(2)]
        train(model, x, y)
        for losses, state, trained in results:
            self.assertEqual(losses, wanted)
            self.assert_state(state, net.state_dict())
            self.assert_state(trained, model.state_dict(), 1e-3)
            self.assert_state(trained, results[0][2])

    def test_workers_that_load_data(self):
        model = vectors_net()
        x, y = batch_of(model)
        net = clprune.Net(model, x)
        data = torch.utils.data.TensorDataset(x, y)
        for context in "fork", "spawn":
            loader = torch.utils.data.DataLoader(data, 3, num_workers=1, multiprocessing_context=context)
            self.assertEqual(len([net.step(*batch) for batch in loader]), 2)


if __name__ == "__main__":
    unittest.main()
