"""Every name and number of Metal that `eas/metal_native` uses is in the table taken from Apple's headers."""

from __future__ import annotations

import pytest

from tools import metal_facts

TABLE = {line for line in metal_facts.TABLE.read_text().splitlines() if not line.startswith("#")}
NAMES = {line.split()[1] for line in TABLE if not line.startswith("selector")}
SELECTORS = {line.split()[2] for line in TABLE if line.startswith("selector")}
SOURCES = sorted(metal_facts.NATIVE.glob("*.mm"))


def test_the_headers_of_the_fake_declare_what_apple_declares():
    assert metal_facts.declared() == TABLE


@pytest.mark.parametrize("source", [*SOURCES, metal_facts.NATIVE / "eas_metal.h"], ids=lambda path: path.name)
def test_the_sources_use_no_other_names(source):
    text = source.read_text()
    assert metal_facts.names_in(text) <= NAMES
    assert metal_facts.selectors_sent(text) <= SELECTORS


def test_the_sources_send_what_a_stream_needs():
    """The search finds messages, so that the test above can fail."""
    sent = set().union(*(metal_facts.selectors_sent(path.read_text()) for path in SOURCES))
    assert {"setBuffer:offset:atIndex:", "memoryBarrierWithScope:", "commit", "newFence"} <= sent


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("x = [gpu newFence];", {"newFence"}),
        ("[[e encoder] setBytes:a[3] length:f(x ? y : z) atIndex:n::two];", {"encoder", "setBytes:length:atIndex:"}),
        ('names[1] = "[no message]"; // [nor this]', set()),
        ("[done addHandler:^(id b) {\n  [b finish];\n}];", {"addHandler:", "finish"}),
        ("[(__bridge id<MTLFence>)s->queue\n    label:(void*)0]", {"label:"}),
    ],
)  # fmt: skip
def test_messages_are_found_in_objective_c(text, sent):
    assert metal_facts.selectors_sent(text) == sent


def test_a_misspelt_declaration_is_noticed():
    text = "@protocol MTLDevice <NSObject>\n@property (readonly, getter=isHeadless) BOOL headles;\n- (id<MTLFence>)newFense;\n- (void)set:(int)a at:(int)b;\n@property (readwrite) int mode;\n@end\n"
    found = metal_facts.facts_of_header(text + "typedef enum : NSUInteger { MTLMathModeFast = 3 } MTLMathMode;")
    assert found == {
        "type MTLDevice", "type MTLMathMode", "number MTLMathModeFast 3", "selector MTLDevice isHeadless", "selector MTLDevice newFense",
        "selector MTLDevice set:at:", "selector MTLDevice mode", "selector MTLDevice setMode:",
    }  # fmt: skip
    assert found - TABLE == {"number MTLMathModeFast 3", "selector MTLDevice newFense", "selector MTLDevice set:at:", "selector MTLDevice mode", "selector MTLDevice setMode:"}


def test_apples_notation_is_read(tmp_path):
    (tmp_path / "Metal").mkdir()
    (tmp_path / "Metal" / "MTLThing.hpp").write_text(
        'namespace MTL\n{\n_MTL_OPTIONS(NS::UInteger, Mode) {\n    ModeOne = 1,\n    ModeHigh = 1 << 5,\n};\nclass Thing : public NS::Referencing<Thing>\n{\n};\n}\n'
        '_MTL_PRIVATE_DEF_SEL(bind_at_,\n    "bind:at:");\n'
        "_MTL_INLINE void MTL::Thing::bind(int a, int b)\n{\n    Object::sendMessage<void>(this, _MTL_PRIVATE_SEL(bind_at_), a, b);\n}\n"
    )
    assert metal_facts.facts_of_apple(tmp_path) == {"type MTLMode", "type MTLThing", "number MTLModeOne 1", "number MTLModeHigh 32", "selector MTLThing bind:at:"}
