"""An LLVM module as text: what its functions have in common."""

from __future__ import annotations

import hashlib

from finchlang.native.target import has_masks, lanes

#: names of the metadata that every module has; UNLIKELY are branch weights (cold, hot)
UNLIKELY, INVARIANT, TBAA_ROOT, TBAA_SLOTS = "!0", "!1", "!2", "!4"
METADATA = [
    '!0 = !{!"branch_weights", i32 1, i32 4000}',
    "!1 = !{}",
    '!2 = !{!"finchlang"}',
    '!3 = !{!"slots", !2, i64 0}',
    "!4 = !{!3, !3, i64 0}",
]
#: `look` and `grow`, which are called rarely, keep the caller's registers (`preserve_mostcc`): otherwise a
#: loop that might call them keeps its own in memory (1.15 times longer for short columns of a product).
LOOKS = "cold nounwind memory(inaccessiblemem: readwrite)"


class Module:
    """What the functions of a module have in common: declarations, library functions and metadata."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.declarations: dict[str, str] = {}
        self.metadata = list(METADATA)
        self.procedures: set[str] = set()  # the kernel's own, by their names
        self.open: set[str] = set()  # of these those that are being written
        self.parts: dict[str, str] = {}  # texts of the modules of rare parts, by their functions

    def declare(self, result: str, name: str, arguments: str, attributes: str = "nounwind") -> None:
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({arguments}) {attributes}"

    def use_look(self) -> None:
        """Define, once, the procedure that polls for an interrupt. Its attributes say that a signal handler
        does not touch our arrays, so that these can be kept in registers across the call."""
        if "PyErr_CheckSignals" not in self.declarations:
            self.declare("i32", "PyErr_CheckSignals", "", LOOKS)
            self.functions.append(
                f"define internal preserve_mostcc i32 @look() noinline {LOOKS} {{\n"
                "  %status = call i32 @PyErr_CheckSignals()\n  ret i32 %status\n}"
            )

    def in_lanes(self, name: str, value: str) -> str:
        """The call of a function of the C library for a Float64, in a branch that is seldom taken. For LLVM
        to make vectors of the loop around there is a function for some values of a vector, which calls it
        for each if there are any."""
        n = lanes()
        vector, mask, many = f"<{n} x double>", f"<{n} x i1>", f"{name}_lanes"
        if many not in self.declarations:
            self.declarations[many] = ""
            self.declare("double", name, "double", "nounwind memory(none)")
            self.declare("i1", f"llvm.vector.reduce.or.v{n}i1", mask)
            lines = [
                # not dropped, though no call is seen, and one for all modules that are linked
                f"define weak_odr hidden {vector} @{many}({vector} %r0, {mask} %mask) noinline {{",
                f"  %any = call i1 @llvm.vector.reduce.or.v{n}i1({mask} %mask)",
                f"  br i1 %any, label %far, label %none\nnone:\n  ret {vector} %r0\nfar:",
            ]
            for k in range(n):
                lines.append(f"  %x{k} = extractelement {vector} %r0, i32 {k}")
                lines.append(f"  %y{k} = call double @{name}(double %x{k})")
                new = f"{vector} %r{k}, double %y{k}, i32 {k}"
                lines.append(f"  %r{k + 1} = insertelement {new}")
            self.functions.append("\n".join([*lines, f"  ret {vector} %r{n}\n}}"]))
        variant = f'"vector-function-abi-variant"="_ZGV_LLVM_M{n}v_{name}({many})"'
        return f"call double @{name}(double {value}) nounwind memory(none) {variant}"

    def use_part(self, part: Module, name: str) -> str:
        """The name here of the function `name` of another module, with a hash of that module's text, so
        that it is compiled once for all kernels that have the same."""
        text = part.text()
        unique = f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        self.parts |= {**part.parts, unique: text.replace(f"@{name}(", f"@{unique}(", 1)}
        return unique

    def tbaa(self, name: str) -> str:
        """The access tag of a new type of memory, which aliases no other."""
        number = len(self.metadata)
        self.metadata.append(f'!{number} = !{{!"{name}", {TBAA_ROOT}, i64 0}}')
        self.metadata.append(f"!{number + 1} = !{{!{number}, !{number}, i64 0}}")
        return f", !tbaa !{number + 1}"

    def loop_hint(self, **properties: str) -> str:
        """Metadata for a loop; a property's name has `_` where LLVM's has a dot."""
        number = len(self.metadata)
        names = ", ".join(f"!{number + k}" for k in range(len(properties) + 1))
        self.metadata.append(f"!{number} = distinct !{{{names}}}")
        for name, value in properties.items():
            name = name.replace("_", ".")
            self.metadata.append(f'!{len(self.metadata)} = !{{!"llvm.loop.{name}", {value}}}')
        return f", !llvm.loop !{number}"

    def short_loop(self, is_straight: bool, scatters: bool, stores: bool) -> str:
        """A hint for a loop that often has few steps: one vector at a time, the last one with lanes masked
        out where the processor can do that. That saves branches that depend on the length and cannot be
        predicted. A loop that `scatters` is not vectorised: to clear the entries of a short column would
        take twice the time; one without loops or branches is unrolled twice, not 8 times (a stored triangle
        used twice takes 0.65 of the time). One that `stores` one entry after the other masks out no lanes,
        since loads would wait for such stores: copies would take 1.6 times as long, y = A x by the columns
        of a band of 5 2.5 times.
        """
        hints = {"vectorize_predicate_enable": "i1 1"} if has_masks() and not stores else {}
        if scatters:
            unrolled = {"unroll_count": "i32 2"} if is_straight else {}
            hints = {"vectorize_enable": "i1 0"} | unrolled
        return self.loop_hint(interleave_count="i32 1", **hints)

    def text(self) -> str:
        return "\n".join([*self.declarations.values(), *self.functions, *self.metadata, ""])
