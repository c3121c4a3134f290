"""Decimals in the dialect of `emit`: whole numbers of one, two or four 64-bit words, exact until they are rounded.

A decimal of one word is a plain `i64`. Wider ones are made, computed and compared by the functions of `wide_scalar`
and `wide_vector`. The number of words follows from the largest magnitude that a value can have (`Value.limit`), so
nothing overflows unseen. A result that has too many digits for its type is NULL, as `values.to_decimal` says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from .dialect import INT64_LIMIT, NotEmittable, Value, both_valid, limit_of, words_for
from .expr import COMPARISONS
from .types import INTEGER_BITS, TICKS_PER_DAY, Type

_DIGITS = 18
"""The digits of the largest power of ten that is one word."""
FLOAT_DIGITS = 14
"""The digits of decimals that are made of doubles in doubles: one fewer than a double always keeps."""


class DecimalEmitter(ABC):
    """Writes arithmetic on decimals. `words`: the most words of a number."""

    words: ClassVar[int] = 1

    @abstractmethod
    def name(self, code: str) -> str:
        """A name for an intermediate result."""

    def wide_constant(self, number: int, words: int) -> str:
        """The text of a number of several words."""
        if abs(number) < INT64_LIMIT:
            return f"w{words}(i64({number}))"
        if words_for(abs(number)) > 2:
            raise NotEmittable(number)
        low = (number + INT64_LIMIT) % (1 << 64) - INT64_LIMIT
        low_text = "INT64_MIN" if low == -INT64_LIMIT else str(low)
        return f"w{words}(wjoin(i64({number >> 64}), i64({low_text})))"

    def _words(self, *limits: int) -> int:
        """The words for numbers of these magnitudes; NotEmittable where they are too many."""
        words = max(map(words_for, limits))
        if words > self.words:
            raise NotEmittable(limits)
        return words

    def _as(self, value: Value, words: int) -> str:
        """A value's text in so many words."""
        return value.code if value.words == words else f"w{min(words, 4)}({value.code})"

    def _made(self, code: str, words: int, valid: str | None, type_: Type, limit: int) -> Value:
        """A value from a text of so many words, in as many as its limit needs."""
        limit = max(limit, 1)
        needed = words_for(limit)
        code = code if needed == words else f"w{min(needed, 4)}({code})"
        return Value(self.name(code), None if valid is None else self.name(valid), type_, limit)

    # -- comparing and choosing ----------------------------------------------------------------------------------

    def compare_exactly(self, op: str, a: Value, b: Value) -> str:
        """Text of a comparison between whole numbers, decimals and all that 64 bits hold."""
        if a.type.scale != b.type.scale:
            scale = max(a.type.scale, b.type.scale)
            a, b = self._rescale(a, scale), self._rescale(b, scale)
        words = max(a.words, b.words)
        if words == 1:
            symbol = {"eq": "==", "ne": "!="}.get(op) or COMPARISONS[op]
            return f"({a.code} {symbol} {b.code})"
        x, y = self._as(a, words), self._as(b, words)
        return {
            "eq": f"weq({x}, {y})",
            "ne": f"not_(weq({x}, {y}))",
            "le": f"wle({x}, {y})",
            "ge": f"wle({y}, {x})",
            "lt": f"wlt({x}, {y})",
            "gt": f"wlt({y}, {x})",
        }[op]

    def _picked(self, condition: str, yes: Value, no: Value) -> str:
        words = max(yes.words, no.words)
        if words == 1:
            return f"pick({condition}, {yes.code}, {no.code})"
        return f"wpick({condition}, {self._as(yes, words)}, {self._as(no, words)})"

    # -- scales --------------------------------------------------------------------------------------------------

    def _rescale(self, value: Value, scale: int) -> Value:
        """The same number with more digits behind the point."""
        factor = 10 ** (scale - value.type.scale)
        limit = max(value.limit, 1) * factor
        type_ = Type("decimal", 18, scale)
        words = self._words(limit)
        if words > 1:
            code = self._as(value, words)
            code = code if factor == 1 else f"wmul({code}, {self.wide_constant(factor, words)})"
            return Value(self.name(code), value.valid, type_, limit)
        if factor == 1:
            return Value(self.name(f"i64({value.code})"), value.valid, type_, limit)
        return Value(self.name(f"i64(i64({value.code}) * i64({factor}))"), value.valid, type_, limit)

    def _into(self, value: Value, type_: Type) -> Value:
        """A number in a decimal type: rounded half up, and NULL where it has too many digits."""
        if value.type.scale > type_.scale:
            value = self._rounded(value, type_.scale)
        elif value.type.scale < type_.scale:
            value = self._rescale(value, type_.scale)
        if value.limit < 10**type_.precision:
            return Value(value.code, value.valid, type_, value.limit)
        words, limit = value.words, limit_of(type_)
        if words == 1:
            fits = self.name(f"((abs_({value.code}) < i64({limit + 1})))")
            return Value(value.code, both_valid(value.valid, fits), type_, limit)
        end = self.wide_constant(limit + 1, words)
        fits = self.name(f"wlt(wabs({value.code}), {end})")
        code = f"wpick({fits}, {value.code}, {self.wide_constant(0, words)})"
        return self._made(code, words, both_valid(value.valid, fits), type_, limit)

    def _rounded(self, value: Value, scale: int) -> Value:
        """Fewer digits behind the point. All but the last 18 of those that go are cut off: that does not change what
        half up makes of the rest."""
        drop = value.type.scale - scale
        limit = value.limit // 10**drop + 1
        words = self._words(max(value.limit, INT64_LIMIT))
        type_ = Type("decimal", 38, scale)
        if words == 2 and drop <= _DIGITS:
            code = f"wround({self._as(value, 2)}, {self.wide_constant(10**drop, 2)})"
            return self._made(code, 2, value.valid, type_, limit)
        code = self._as(value, 4)
        while drop > _DIGITS:
            code = self.name(f"wcut({code}, i64({10 ** min(_DIGITS, drop - _DIGITS)}))")
            drop -= min(_DIGITS, drop - _DIGITS)
        return self._made(f"wnear({code}, i64({10**drop}))", 4, value.valid, type_, limit)

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _decimal(self, op: str, a: Value, b: Value, valid: str | None, type_: Type) -> Value:
        """Exact, then rounded into the result's type."""
        a, b = (v if v.type.kind == "decimal" else self._rescale(v, 0) for v in (a, b))
        if op == "mul":
            limit = max(a.limit, 1) * max(b.limit, 1)
            words = self._words(limit)
            if words == 1:
                code = f"i64(i64({a.code}) * i64({b.code}))"
            else:
                code = f"wmul({self._as(a, words)}, {self._as(b, words)})"
            exact = Type("decimal", 38, a.type.scale + b.type.scale)
            return self._into(self._made(code, words, valid, exact, limit), type_)
        if op == "div":
            return self._quotient(a, b, valid, type_)
        scale = max(a.type.scale, b.type.scale)
        a, b = self._rescale(a, scale), self._rescale(b, scale)
        if op in ("add", "sub"):
            limit = a.limit + b.limit
            words = self._words(limit)
            if words == 1:
                code = f"i64({a.code} {'+' if op == 'add' else '-'} {b.code})"
            else:
                code = f"w{op}({self._as(a, words)}, {self._as(b, words)})"
            return self._into(self._made(code, words, valid, Type("decimal", 38, scale), limit), type_)
        words = max(a.words, b.words)
        b, nonzero = self._divisor(b)
        function = op if words == 1 else "wdiv" if op == "intdiv" else f"w{op}"
        code = f"{function}({self._as(a, words)}, {self._as(b, words)})"
        if words > 2:
            self._unlimited()
        valid = both_valid(valid, nonzero)
        if op == "intdiv":
            return Value(self.name(code if words == 1 else f"w1({code})"), valid, type_, limit_of(type_))
        limit = a.limit + 1 if op == "floordiv" else b.limit if op == "floormod" else min(a.limit, b.limit)
        exact = Type("decimal", 38, 0 if op == "floordiv" else scale)
        return self._into(self._made(code, words, valid, exact, limit), type_)

    def _quotient(self, a: Value, b: Value, valid: str | None, type_: Type) -> Value:
        shift = type_.scale + b.type.scale - a.type.scale
        plain = Type("decimal", 38, 0)
        a, b = Value(a.code, a.valid, plain, a.limit), Value(b.code, b.valid, plain, b.limit)
        a, b = (self._rescale(a, shift), b) if shift >= 0 else (a, self._rescale(b, -shift))
        words = self._words(INT64_LIMIT, a.limit, b.limit)
        if words > 2:
            self._unlimited()
        b, nonzero = self._divisor(b)
        code = f"wround({self._as(a, words)}, {self._as(b, words)})"
        result = self._made(code, words, both_valid(valid, nonzero), Type("decimal", 38, type_.scale), a.limit + 1)
        return self._into(result, type_)

    def _divisor(self, b: Value) -> tuple[Value, str]:
        """The divisor, 1 in place of 0, and where it is not zero."""
        zero = Value("i64(0)", None, b.type)
        nonzero = self.name(self.compare_exactly("ne", b, zero))
        one = Value("i64(1)", None, b.type, 1)
        return Value(self.name(self._picked(nonzero, b, one)), b.valid, b.type, b.limit), nonzero

    def _unlimited(self) -> None:
        """Compiled code divides by at most two words."""
        if self.words <= 4:
            raise NotEmittable("division")

    def _decimal_sign(self, op: str, value: Value, valid: str | None, type_: Type) -> Value:
        return Value(self.name(f"w{op}({value.code})"), valid, type_, value.limit)

    def _decimal_floor(self, op: str, value: Value, valid: str | None, type_: Type) -> Value:
        unit = 10**value.type.scale
        if value.words > 2:
            self._unlimited()
        code, end = value.code, self.wide_constant(unit, value.words)
        code = f"wfloordiv({code}, {end})" if op == "floor" else f"wneg(wfloordiv(wneg({code}), {end}))"
        return self._made(code, value.words, valid, type_, value.limit // unit + 1)

    # -- casts ---------------------------------------------------------------------------------------------------

    def _cast_to_decimal(self, value: Value, target: Type) -> Value:
        source = value.type
        if source.kind == "boolean":
            value = Value(f"i64({value.code})", value.valid, source, 1)
        elif source.is_timestamp:
            scale = len(str(TICKS_PER_DAY[source.unit] // 86_400)) - 1
            value = self._made(value.code, 1, value.valid, Type("decimal", 38, scale), INT64_LIMIT)
        elif source.is_float:
            return self._float_to_decimal(value, target)
        elif source.kind not in (*INTEGER_BITS, "decimal"):
            raise NotEmittable(target)
        if source.kind != "decimal":
            value = self._rescale(value, value.type.scale)
        return self._into(value, target)

    def _float_to_decimal(self, value: Value, target: Type) -> Value:
        """What half up makes of the shortest decimal text of a double, without the text, for up to 14 digits.

        With `whole` the digits before the cut, that text rounds up iff it is `half` = whole + 1/2 or more. Texts and
        doubles have one order, so this is decided by the double nearest to `half`, unless that is the double itself.
        Then the text is `half`: both have 15 digits at most, and no two such texts are nearest to one double.
        """
        if target.precision > FLOAT_DIGITS:
            raise NotEmittable(target)
        number = self.name(f"f64({value.code})")
        size = self.name(f"abs_({number})")
        shifted = self.name(f"({size} * f64({float(10**target.scale)}))")
        inside = self.name(f"({shifted} < f64({float(10**target.precision)}))")
        whole = self.name(f"floor(pick({inside}, {shifted}, f64(0.0)))")
        half = f"((({whole} * f64(10.0)) + f64(5.0)) / f64({float(10 ** (target.scale + 1))}))"
        near = self.name(f"pick(({size} >= {half}), {whole} + f64(1.0), {whole})")
        signed = f"sat64(pick(({number} < f64(0.0)), -{near}, {near}))"
        exact = Type("decimal", 38, target.scale)
        made = self._made(signed, 1, both_valid(value.valid, inside), exact, 10**target.precision)
        return self._into(made, target)

    def _decimal_to_integer(self, value: Value, digits: int = 0) -> str:
        """The whole part of a number with so many more digits before the point, in 64 bits, wrapped."""
        drop, words = value.type.scale - digits, value.words
        if drop <= 0:
            code = value.code if words == 1 else self.name(f"w1({value.code})")
            return f"mul64({code}, i64({10**-drop}))" if drop else code
        unit = 10**drop
        if words == 1 and unit < INT64_LIMIT:
            return f"intdiv({value.code}, i64({unit}))"
        words = self._words(INT64_LIMIT, value.limit, unit)
        if words > 2:
            self._unlimited()
        return f"w1(wdiv({self._as(value, words)}, {self.wide_constant(unit, words)}))"

    def _decimal_to_float(self, value: Value, target: Type) -> str:
        """The nearest double."""
        scale = value.type.scale
        if scale <= 15 and value.limit < 2**53:  # one division, correctly rounded
            return f"(f64({value.code}) / f64({float(10**scale)}))"
        if target.kind == "float" and not scale:  # whole numbers are rounded to 32 bits at once
            return self._whole_to_float32(value)
        return f"wratio({self._as(value, self._words(INT64_LIMIT, value.limit))}, {scale})"

    def _whole_to_float32(self, value: Value) -> str:
        """Rounded once if it fits into 64 bits, else by way of the nearest double."""
        if value.words == 1:
            return f"f32({value.code})"
        words = self._words(value.limit)
        low = self.name(f"w1({value.code})")
        return f"pick(weq({value.code}, w{words}({low})), f32({low}), f32(wratio({value.code}, 0)))"
