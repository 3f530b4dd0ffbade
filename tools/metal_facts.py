"""The table of Metal's names and numbers that `eas/metal_native` relies on, and its source: Apple's public metal-cpp headers.

    python tools/metal_facts.py METAL_CPP     # writes tests/golden/metal_facts.txt

METAL_CPP is a copy of metal-cpp (macOS 26 or later), with its folders Metal and Foundation. Only names and numbers are taken.
A name that Apple's headers do not have is refused, so that a misspelt one cannot get into the table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE, DECLARED = ROOT / "eas" / "metal_native", ROOT / "eas" / "metal_fake" / "include"
TABLE = ROOT / "tests" / "golden" / "metal_facts.txt"
NOT_IN_CPP = {f"selector {s}" for s in ("NSObject new", "NSObject dealloc", "NSString stringWithUTF8String:")}  # Foundation's; C++ has other ways
Facts = set[str]
"""Lines: `type MTLSize`, `function MTLCopyAllDevices`, `number MTLMathModeFast 2`, `selector MTLDevice newFence`."""


# --- Apple's headers ------------------------------------------------------------------------------


def facts_of_apple(headers: Path) -> Facts:
    """Every type, function, number and selector of a copy of metal-cpp."""
    texts = [path.read_text() for folder in ("Metal", "Foundation") for path in sorted((headers / folder).glob("*.hpp"))]
    spelled = {accessor: name for text in texts for accessor, name in re.findall(r'DEF_SEL\(\s*(\w+),\s*"([\w:]+)"', text)}
    return {fact for text in texts for fact in (*_types(text), *_numbers(text), *_selectors(text, spelled))}


def _types(text: str) -> Iterator[str]:
    for prefix, name in re.findall(r"_(MTL|NS)_(?:ENUM|OPTIONS)\([\w:]+, (\w+)\)", text):
        yield f"type {prefix}{name}"
    prefix = "MTL" if re.search(r"namespace MTL\b", text) else "NS"
    for name in re.findall(r"^\s*(?:class|struct) (\w+)(?=\s*(?::|$|_MTL_PACKED))|^using (\w+) =", text, re.M):
        yield f"type {prefix}{name[0] or name[1]}"
    for name in re.findall(r'^extern "C".*?\b(MTL\w+)\(', text, re.M):
        yield f"function {name}"


def _numbers(text: str) -> Iterator[str]:
    for body in re.findall(r"_MTL_(?:ENUM|OPTIONS)\([^)]*\)\s*\{(.*?)\}", text, re.S):
        for name, value, shift in re.findall(r"(\w+) = (\d+)(?: << (\d+))?,", body):
            yield f"number MTL{name} {int(value) << int(shift or 0)}"


def _selectors(text: str, spelled: dict[str, str]) -> Iterator[str]:
    """What the methods of each class send: their bodies follow their names."""
    parts = re.split(r"^_(?:MTL|NS)_INLINE .*?\b(MTL|NS)::(\w+)::\w+\(", text, flags=re.M)
    for prefix, owner, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        for accessor in re.findall(r"_PRIVATE_SEL\((\w+)\)", body):
            if accessor in spelled:
                yield f"selector {prefix}{owner} {spelled[accessor]}"


# --- what we rely on ------------------------------------------------------------------------------


def declared() -> Facts:
    """What the headers of the fake declare: all that the compiler lets `eas/metal_native` use."""
    return {fact for path in sorted(DECLARED.glob("*/*.h")) for fact in facts_of_header(path.read_text())}


def facts_of_header(text: str) -> Facts:
    """Types, functions, numbers and selectors that an Objective-C header declares."""
    text = re.sub(r"//.*", "", text)
    facts = {f"number {name} {value}" for name, value in re.findall(r"\b(MTL\w+) = (\d+)", text)}
    facts |= {f"type {name}" for name in re.findall(r"^\s*(?:@protocol|@interface|\})\s*((?:MTL|NS)\w+)(?=[\s<;]*[^,;\w])", text, re.M)}
    facts |= {f"type {name}" for name in re.findall(r"(?:\}\s*|\(\^)(MTL\w+)(?:;|\))", text)}
    facts |= {f"function {name}" for name in re.findall(r'^extern "C".*?\b(MTL\w+)\(', text, re.M)}
    for owner, body in re.findall(r"^(?:@protocol|@interface) (\w+)(?:[ <][^;\n]*)?\n(.*?)^@end", text, re.M | re.S):
        facts |= {f"selector {owner} {selector}" for selector in _declared_selectors(body)}
    return facts


def _declared_selectors(body: str) -> Iterator[str]:
    for attributes, name in re.findall(r"@property\s*\(([^)]*)\)[^;]*?(\w+);", body):
        getter = re.search(r"getter=(\w+)", attributes)
        yield getter[1] if getter else name
        if "readonly" not in attributes:
            yield f"set{name[0].upper()}{name[1:]}:"
    for method in re.findall(r"^[-+] \([^;]*?\)(\w[^;]*);", body, re.M):
        keywords = re.findall(r"(\w+):", without_groups(method))
        yield "".join(f"{word}:" for word in keywords) or method.strip()


def names_in(text: str) -> set[str]:
    """Words of Objective-C++ that begin as Metal's do."""
    return set(re.findall(r"\bMTL\w+", re.sub(r"//.*|\"[^\"\n]*\"|<Metal/\S+>", "", text)))


def selectors_sent(text: str) -> set[str]:
    """The selectors of all messages `[receiver word:argument ...]` of an Objective-C++ text."""
    text = re.sub(r"//.*|\"[^\"\n]*\"", "", text)
    found = set()
    for at in re.finditer(r"(?<![\w\]\s])\[(?!\])|(?<=\s)\[", text):  # behind a word it is an index
        inside = without_groups(text[at.end() : _closing(text, at.start())])
        keywords = re.findall(r"(?<!:)\b(\w+):(?!:)", inside)
        found.add("".join(f"{word}:" for word in keywords) or inside.split()[-1])
    return found


def without_groups(text: str) -> str:
    """A text without what stands in its brackets."""
    kept, depth = [], 0
    for c in text:
        depth -= c in ")]}"
        if not depth and c not in ")]}" and c not in "([{":
            kept.append(c)
        depth += c in "([{"
    return "".join(kept)


def _closing(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if not depth:
            return at
    raise ValueError(f"an open bracket: {text[start : start + 60]}")


def main(headers: str) -> int:
    apple, needed = facts_of_apple(Path(headers)), declared()
    unknown = sorted(needed - apple - NOT_IN_CPP)
    if unknown:
        print("not in Apple's headers:", *unknown, sep="\n  ", file=sys.stderr)
        return 1
    TABLE.write_text("# Names and numbers of Metal, from Apple's metal-cpp headers by tools/metal_facts.py.\n" + "".join(f"{f}\n" for f in sorted(needed)))
    print(f"wrote {len(needed)} facts")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]) if len(sys.argv) == 2 else __doc__)
