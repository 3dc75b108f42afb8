"""In gdb, with the library built with all debug information: where the words are that
hwheel.py reads, as the text that stands there between its marks."""

import gdb

WORDS = """
wheel.ticks.up wheel.ticks.down wheel.ticks.tick_ns wheel.ticks.bias
wheel.shared.hand wheel.inboxes.at wheel.callback.running
wheel.shared.strays.arms wheel.shared.strays.moves wheel.shared.strays.cancels
wheel.shared.strays.setups wheel.shared.strays.frees
wheel.shared.count.fired wheel.shared.count.periods wheel.shared.count.drained
wheel.slab.directory wheel.slab.bump clock manual drive
""".split()
INBOX = "count.arms count.moves count.cancels count.setups count.frees".split()


def offset(type, path):
    at = 0
    for name in path.split("."):
        field = type[name]
        at, type = at + field.bitpos // 8, field.type
    return at


host = gdb.lookup_type("hwheel::runtime::host::Host")
inbox = gdb.lookup_type("hwheel::core::inbox::Inbox")
layout = {name: offset(host, name) for name in WORDS}
layout["clock.id"] = offset(host, "clock") + 4
layout.update({"inbox." + name: offset(inbox, name) for name in INBOX})
print("LAYOUT = {")
for name, at in layout.items():
    print(f'    "{name}": {at},')
print("}")
