"""Operations on images as layers of a program."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from clprune.tracing.layers import Layers
from clprune.tracing.program import FLOATS, Conv, Extent, Layer, Pool, pair
from clprune.tracing.views import Constant, NotSupported, Order, Value, matrices_of

__all__ = ["Images"]


class Images(Layers):
    def conv2d(self, x: Value, weight: Constant, bias: Optional[Constant] = None, stride=1,
               padding=0, dilation=1, groups: int = 1) -> Value:
        x = self._use(x, True)
        if x.windows > 1 and not isinstance(padding, str):
            reach = pair(dilation)[0] * (weight.value.shape[2] - 1) + 1
            return self.in_windows(x, (reach, 0), pair(stride), pair(padding)[0], lambda image: self.conv2d(
                image, weight, bias, stride, (0, pair(padding)[1]), dilation, groups))
        if x.axes == ("C", "", "") and tuple(weight.value.shape[2:]) == (1, 1) and groups == 1:
            return self._linear_of_pixel(x, weight, bias)
        x = self.image(x)
        if isinstance(padding, str):
            reach = [d * (k - 1) for d, k in zip(pair(dilation), weight.value.shape[2:])]
            if padding == "same" and any(r % 2 for r in reach):  # one more at the end
                x = self._resampled(x, lambda t: F.pad(t, [side for r in reversed(reach) for side in (r // 2, r - r // 2)]))
                padding = "valid"
            padding = 0 if padding == "valid" else tuple(r // 2 for r in reach)
        name, (out, channels, *kernel) = self._layer_of(weight), weight.value.shape
        conv = Conv(out, tuple(kernel), pair(stride), pair(padding), pair(dilation),
                    groups, bias is not None)
        sizes = {"C": out, "H": self.result.shape[2], "W": self.result.shape[3]}
        value = self._add("conv2d", name, (x.layer,), (conv,), x.axes, sizes)
        self._param(f"{name}.weight", weight, split=(out, channels, *kernel),
                    order=(0, 2, 3, 1))
        if bias is not None:
            self._param(f"{name}.bias", bias)
        return value

    def conv1d(self, x: Any, weight: Constant, bias: Optional[Constant] = None, stride=1, padding=0, dilation=1,
               groups: int = 1) -> Value:
        """Of lines (N, C, L), as images of one row."""
        x = self._use(x)
        if padding == "same":
            padding = pair(dilation)[0] * (weight.value.shape[2] - 1)
            if padding % 2:
                raise NotSupported("a convolution of lines with one more pixel at the end")
            padding //= 2
        rows, features = x.size(x.rows), x.sizes["C"]
        lines = {("C", x.rows): (0, 1), (x.rows, "C"): (1, 0)}.get(x.axes)
        if lines is None:
            raise NotSupported("a convolution of lines of a tensor that is not (N, C, L)")
        channels, length = x.shape
        line = self._push("permute", (x.layer,), Order((rows, features), lines), channels, Extent(1, length))
        name, (out, per_group, kernel) = self._layer_of(weight), weight.value.shape
        along = [(a, pair(b)[0]) for a, b in ((1, kernel), (1, stride), (0, 0 if padding == "valid" else padding), (1, dilation))]
        self.program.layers.append(Layer("conv2d", name, (line,), (Conv(out, *along, groups, bias is not None),)))
        value = Value(len(self.program.layers) - 1, ("C", "T"), {"C": out, "T": self.result.shape[2]})
        self._param(f"{name}.weight", weight, split=(out, per_group, kernel), order=(0, 2, 1))
        if bias is not None:
            self._param(f"{name}.bias", bias)
        return value

    def conv_transpose2d(self, x: Value, weight: Constant, bias: Optional[Constant] = None, stride=1, padding=0,
                         output_padding=0, groups: int = 1, dilation=1) -> Value:
        x = self._use(x)
        x = self.image(x)
        name, (channels, out, *kernel) = self._layer_of(weight), weight.value.shape
        conv = Conv(out * groups, tuple(kernel), pair(stride), pair(padding), pair(dilation), groups, bias is not None,
                    pair(output_padding))
        sizes = {"C": out * groups, "H": self.result.shape[2], "W": self.result.shape[3]}
        value = self._add("conv_transpose2d", name, (x.layer,), (conv,), x.axes, sizes)
        self._param(f"{name}.weight", weight, split=(channels, out, *kernel), order=(0, 2, 3, 1))
        if bias is not None:
            self._param(f"{name}.bias", bias)
        return value

    def unfold(self, x: Value, kernel_size, dilation=1, padding=0, stride=1) -> Value:
        """The pixels of each window, by a convolution that takes one each."""
        x = self._use(x)
        x = self.image(x)
        channels, kernel, steps, reach, gaps = x.sizes["C"], *map(pair, (kernel_size, stride, padding, dilation))
        taps, name = kernel[0] * kernel[1], self._name()
        sides = {axis: (x.sizes[axis] + 2 * p - d * (k - 1) - 1) // s + 1
                 for axis, k, s, p, d in zip("HW", kernel, steps, reach, gaps)}
        conv = Conv(channels * taps, kernel, steps, reach, gaps, channels, False)
        value = self._add("conv2d", name, (x.layer,), (conv,), ("C", "HW"), {"C": channels * taps, **sides})
        self._param(f"{name}.weight", None, torch.eye(taps).view(taps, 1, *kernel).repeat(channels, 1, 1, 1),
                    split=(channels * taps, 1, *kernel), order=(0, 2, 3, 1))
        return value

    def fold(self, x: Value, output_size, kernel_size, dilation=1, padding=0, stride=1) -> Value:
        """The sums of windows where they overlap, by a transposed convolution."""
        x = self._use(x)
        if len(x.axes) != 2 or x.axes[0] != "C" or x.axes[1] != x.rows:
            raise NotSupported("fold of a tensor that is not (N, C, L)")
        kernel, steps, reach, gaps, sides = map(pair, (kernel_size, stride, padding, dilation, output_size))
        taps = kernel[0] * kernel[1]
        channels = x.sizes["C"] // taps
        counts = [(side + 2 * p - d * (k - 1) - 1) // s + 1 for side, k, s, p, d in zip(sides, kernel, steps, reach, gaps)]
        more = tuple(side - ((n - 1) * s - 2 * p + d * (k - 1) + 1)
                     for side, n, k, s, p, d in zip(sides, counts, kernel, steps, reach, gaps))
        image = self._push("permute", (x.layer,), Order((x.size(x.rows), x.sizes["C"]), (0, 1)), x.sizes["C"], Extent(*counts))
        name, conv = self._name(), Conv(channels, kernel, steps, reach, gaps, channels, False, more)
        value = self._add("conv_transpose2d", name, (image,), (conv,), ("C", "H", "W"),
                          {"C": channels, "H": sides[0], "W": sides[1]})
        self._param(f"{name}.weight", None, torch.eye(taps).view(taps, 1, *kernel).repeat(channels, 1, 1, 1),
                    split=(channels * taps, 1, *kernel), order=(0, 2, 3, 1))
        return value

    def _linear_of_pixel(self, x: Value, weight: Constant, bias: Optional[Constant]) -> Value:
        """A 1 x 1 convolution of a pooled image."""
        name, (out, channels, *_) = self._layer_of(weight), weight.value.shape
        value = self._add("linear", name, (x.layer,), (out,), x.axes, {"C": out})
        self._param(f"{name}.weight", weight, split=(out, channels), order=(0, 1))
        self._param(f"{name}.bias", bias, torch.zeros(out, **FLOATS))
        return value

    def patch_merging(self, x: Value) -> Value:
        """torchvision's: the features of 2 x 2 pixels beside each other, column by column."""
        x = self._use(x)
        if x.axes != ("H", "W", "C"):
            raise NotSupported("merged patches of (N, C, H, W)")
        height, width, features = (x.sizes[axis] for axis in x.axes)
        if height % 2 or width % 2:
            x = self._resampled(x, lambda t: F.pad(t, (0, width % 2, 0, height % 2)))
        height, width = -(-height // 2), -(-width // 2)
        layer = self._push("permute", (x.layer,), Order((height, 2, width, 2, features), (0, 2, 3, 1, 4)), 4 * features,
                           Extent(height, width))
        return Value(layer, x.axes, {"H": height, "W": width, "C": 4 * features})

    def max_pool2d(self, x: Value, kernel_size, stride=None, padding=0, dilation=1,
                   ceil_mode: bool = False, return_indices: bool = False) -> Value:
        x, kernel = self._use(x, True), pair(kernel_size)
        if pair(dilation) != (1, 1) or return_indices or x.windows > 1 and (pair(padding) != (0, 0) or ceil_mode):
            raise NotSupported("max pooling needs dilation 1, no indices, and in windows no padding")
        if x.windows > 1:
            return self.in_windows(x, kernel, pair(stride or kernel), 0, lambda image: self.max_pool2d(image, kernel, stride))
        x = self.image(x)
        pool = Pool(kernel, pair(stride) if stride else kernel, pair(padding), ceil_mode)
        sizes = {"C": x.sizes["C"], "H": self.result.shape[2], "W": self.result.shape[3]}
        return self._add("max_pool", self._name(), (x.layer,), (pool,), x.axes, sizes)

    def avg_pool2d(self, x: Value, kernel_size, stride=None, padding=0, ceil_mode: bool = False,
                   count_include_pad: bool = True, divisor_override: Optional[int] = None) -> Value:
        """A depthwise convolution with equal weights that are not trained."""
        x = self.image(self._use(x))
        kernel, padding = pair(kernel_size), pair(padding)
        if kernel == (x.sizes["H"], x.sizes["W"]) and padding == (0, 0) and not divisor_override:
            return self._mean(x, ("C", "", ""))
        steps, sides = pair(stride) if stride else kernel, tuple(self.result.shape[2:])
        whole = sides == tuple((x.sizes[axis] + 2 * p - k) // s + 1
                               for axis, p, k, s in zip("HW", padding, kernel, steps))
        if not whole or padding != (0, 0) and not count_include_pad or max(kernel) > 8:
            return self._resampled(x, lambda t: F.avg_pool2d(t, kernel, steps, padding, ceil_mode, count_include_pad,
                                                             divisor_override))
        name, channels = self._name(), x.sizes["C"]
        conv = Conv(channels, kernel, steps, padding, (1, 1), channels, False)
        sizes = {"C": channels, "H": sides[0], "W": sides[1]}
        value = self._add("conv2d", name, (x.layer,), (conv,), x.axes, sizes)
        shape = (channels, 1, *kernel)
        weight = torch.full(shape, 1 / (divisor_override or kernel[0] * kernel[1]), **FLOATS)
        self._param(f"{name}.weight", None, weight, split=shape, order=(0, 2, 3, 1))
        return value

    def _resampled(self, x: Any, change: Callable[[Tensor], Tensor]) -> Value:
        """A linear function of each axis of an image, whose matrices are found by trial."""
        x = self._use(x)
        if sorted(x.axes) != ["C", "H", "W"]:
            raise NotSupported("a change of images of a tensor that is not an image")
        sides = change(torch.zeros(1, 1, x.sizes["H"], x.sizes["W"])).shape[2:]
        layer = self._push("resample", (x.layer,), *matrices_of(change, x.sizes["H"], x.sizes["W"]))
        return Value(layer, x.axes, {"C": x.sizes["C"], "H": sides[0], "W": sides[1]})

    def pad(self, x: Any, pad: Sequence[int], mode: str = "constant", value: Optional[float] = None) -> Value:
        if not any(pad):
            return x
        x, rank = self._use(x), self.result.dim()
        sides = {rank - 1 - i // 2: list(pad[i:i + 2]) for i in range(0, len(pad), 2) if any(pad[i:i + 2])}
        of = dict(zip(self._sides(x, sides, "padding"), sides.values()))
        return self._resampled(x, lambda t: F.pad(t, [*of.get(3, (0, 0)), *of.get(2, (0, 0))], mode, value))

    def _sides(self, x: Value, dims: Iterable[int], what: str) -> List[int]:
        """The dimensions of (N, C, H, W) that some of the tensor's are, which must be H and W."""
        groups = [x.axes[d % self.result.dim() - 1] if d % self.result.dim() > 0 else "" for d in dims]
        if not groups or any(group not in ("H", "W") for group in groups):
            raise NotSupported(f"{what} of other axes than those of an image")
        return ["CHW".index(group) + 1 for group in groups]

    def roll(self, x: Any, shifts: Any, dims: Any = None) -> Value:
        x = self._use(x)
        sides = self._sides(x, (dims,) if isinstance(dims, int) else dims or (), "roll")
        return self._resampled(x, lambda t: torch.roll(t, shifts, sides))

    def flip(self, x: Any, *dims: Any) -> Value:
        x = self._use(x)
        sides = self._sides(x, dims[0] if isinstance(dims[0], (tuple, list)) else dims, "flip")
        return self._resampled(x, lambda t: torch.flip(t, sides))

    def upsample(self, x: Value, size=None, scale_factor=None, mode: str = "nearest", *more: Any,
                 **others: Any) -> Value:
        x = self._use(x)
        sides = tuple(self.result.shape[2:])
        if x.axes == ("C", "", ""):  # one pixel
            layer = self._push("permute", (x.layer,), Order((x.sizes["C"],), (0,)), x.sizes["C"], Extent(1, 1))
            x = Value(layer, ("C", "H", "W"), {"C": x.sizes["C"], "H": 1, "W": 1})
        x = self.image(x)
        factor = sides[0] // x.sizes["H"]
        if mode != "nearest" or sides != (factor * x.sizes["H"], factor * x.sizes["W"]):
            return self._resampled(x, lambda t: F.interpolate(t, size, scale_factor, mode, *more, **others))
        sizes = {"C": x.sizes["C"], "H": sides[0], "W": sides[1]}
        return self._add("upsample", self._name(), (x.layer,), (factor,), x.axes, sizes)

    def adaptive_avg_pool2d(self, x: Value, output_size) -> Value:
        x = self.image(self._use(x))
        sides = tuple(self.result.shape[2:])
        if sides not in ((1, 1), (x.sizes["H"], x.sizes["W"])):
            return self._resampled(x, lambda t: F.adaptive_avg_pool2d(t, output_size))
        return x if sides != (1, 1) else self._mean(x, ("C", "", ""))

    def adaptive_max_pool2d(self, x: Any, output_size, return_indices: bool = False) -> Value:
        x = self.image(self._use(x))
        kernel = tuple(x.sizes[axis] // side for axis, side in zip("HW", self.result.shape[2:]))
        if return_indices or any(x.sizes[axis] % side for axis, side in zip("HW", self.result.shape[2:])):
            raise NotSupported("adaptive max pooling to a grid that does not divide the image, or with indices")
        return self.max_pool2d(x, kernel)

    def avg_pool1d(self, x: Any, kernel_size, stride=None, padding=0, ceil_mode: bool = False, count_include_pad: bool = True
                   ) -> Value:
        """Of lines, as images of one row."""
        lines = self._changed(x, lambda t: t[:, :, None])
        self.result = self.result[:, :, None]
        image, padding, kernel = self.image(lines), (0, pair(padding)[0]), (1, pair(kernel_size)[0])
        y = self.avg_pool2d(image, kernel, (1, pair(stride or kernel_size)[0]), padding, ceil_mode, count_include_pad)
        self.result = self.result[:, :, 0]
        return Value(y.layer, ("C", "T"), {"C": y.sizes["C"], "T": y.sizes.get("W", 1)})
