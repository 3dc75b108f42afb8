# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timers and wheels of hwheel in gdb. All is read from memory and nothing of the
process runs, so core files do as well.

    print wheel         a wheel, through any struct hwheel *
    print timer         an hwheel_timer_t: its state and deadline; its wheel is one that
                        a variable in sight refers to, or that was printed before
    hwheel WHEEL [N]    a wheel and the first N of its timers, 20 unless told
"""

import gdb
import gdb.printing

# Where the words are, in bytes: `make regenerate WHAT=gdb` writes this.
# layout {
LAYOUT = {
    "wheel.ticks.up": 4096,
    "wheel.ticks.down": 4104,
    "wheel.ticks.tick_ns": 4128,
    "wheel.ticks.bias": 4136,
    "wheel.shared.hand": 17032,
    "wheel.inboxes.at": 4224,
    "wheel.callback.running": 128,
    "wheel.shared.strays.arms": 17040,
    "wheel.shared.strays.moves": 17048,
    "wheel.shared.strays.cancels": 17056,
    "wheel.shared.strays.setups": 17072,
    "wheel.shared.strays.frees": 17080,
    "wheel.shared.count.fired": 17104,
    "wheel.shared.count.periods": 17112,
    "wheel.shared.count.drained": 17128,
    "wheel.slab.directory": 18176,
    "wheel.slab.bump": 22284,
    "clock": 22408,
    "manual": 22416,
    "drive": 22812,
    "clock.id": 22412,
    "inbox.count.arms": 32,
    "inbox.count.moves": 40,
    "inbox.count.cancels": 48,
    "inbox.count.setups": 64,
    "inbox.count.frees": 72,
}
# layout }

# The state word and the handle: src/core/state.rs; the records: src/core/record.rs.
ARMED, LIVE, RARE, RUNNING = 1, 2, 8, 16
FLAGS_BITS, LOW_BITS, INDEX_BITS, HIGH_SHIFT = 8, 26, 26, 54
# The exponent of a deadline. If all of its bits are set in a timer that is not pending,
# the timer is shut down.
EXPONENT_SHIFT, EXPONENT = 6, 3 << 6
GENERATION = (1 << LOW_BITS) - (1 << FLAGS_BITS)
UNIT_BITS = 9
HOT_SIZE, ENTRY_SIZE, FIRE_SIZE, RARE_SIZE = 16, 16, 16, 32
BLOCK_BITS, FIRST, SMALL = 17, 64, 1 << 15
# Inboxes: src/core/inbox.rs.
THREADS, INBOX, PAGE = 1 << 15, 256, 4096
TAG_SHIFT, VALUE = 48, (1 << 48) - 1
LONG, LONG_BITS = 1 << 47, 16
BURST, DELAY, KEYED = 2, 4, 8
CLOCKS = {0: "realtime", 1: "monotonic", 7: "boottime"}
END_OF_TIME = 1 << 63


class NoWheel(Exception):
    """What is there is no wheel of this version."""


def read(address, size=8):
    try:
        memory = gdb.selected_inferior().read_memory(address, size)
    except gdb.MemoryError:
        raise NoWheel(f"no memory at {address:#x}") from None
    return int.from_bytes(memory.tobytes(), "little")


def span(ns):
    """Nanoseconds in the largest unit of which they are at least one."""
    for unit, digits in ("s", 9), ("ms", 6), ("us", 3):
        whole, rest = divmod(abs(ns), 10**digits)
        if whole:
            text = f"{'-' * (ns < 0)}{whole}.{rest:0{digits}}"
            return text.rstrip("0").rstrip(".") + f" {unit}"
    return f"{ns} ns"


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class Wheel:
    def __init__(self, address):
        self.address = address
        self.tick_ns = self.word("wheel.ticks.tick_ns")
        self.bias = self.word("wheel.ticks.bias")
        up, down = self.word("wheel.ticks.up"), self.word("wheel.ticks.down")
        self.first_unused = self.word("wheel.slab.bump", 4)
        # Memory that holds anything else, or a wheel of another build, does not add up.
        if (
            not 0 < self.tick_ns <= 1 << 46
            or up - down != self.tick_ns - 1
            or down != self.bias * self.tick_ns
            or not FIRST <= self.first_unused <= 1 << INDEX_BITS
        ):
            raise NoWheel("not a wheel of the version that this script is of")
        self.hand = self.word("wheel.shared.hand")

    def word(self, name, size=8):
        return read(self.address + LAYOUT[name], size)

    def total(self, name):
        """A count over all threads."""
        sum = self.word("wheel.shared.strays." + name)
        inboxes = self.word("wheel.inboxes.at")
        for page in range(inboxes, inboxes + THREADS * INBOX, PAGE):
            try:
                words = gdb.selected_inferior().read_memory(page, PAGE)
            except gdb.MemoryError:
                continue  # A core file lacks what was never used.
            if any(bytes(words)):
                for at in range(LAYOUT["inbox.count." + name], PAGE, INBOX):
                    sum += int.from_bytes(bytes(words[at : at + 8]), "little")
        return sum & (1 << 64) - 1

    def counted(self, name):
        return self.word("wheel.shared.count." + name)

    def live(self):
        return self.total("setups") - self.total("frees")

    def pending(self):
        ended = self.total("cancels") + self.counted("drained") + self.counted("fired")
        armed = self.total("arms") - self.total("moves")
        return armed + self.counted("periods") - ended

    def clock(self):
        """The clock, and what it says if that is the caller's."""
        if not self.word("clock", 4):
            return f"manual at {span(self.word('manual'))}"
        return CLOCKS.get(self.word("clock.id", 4), "of the system")

    def ns(self, tick):
        ns = (tick - self.bias) * self.tick_ns
        return ns if 0 <= ns < END_OF_TIME else None

    def node(self, index):
        """The state and the link at an index, and where the other records are."""
        if not FIRST <= index < self.first_unused:
            return None
        block, nodes = index >> BLOCK_BITS, 1 << BLOCK_BITS
        # Where index 0 would lie if all hot records lay in one array.
        base = read(self.address + LAYOUT["wheel.slab.directory"] + 8 * block)
        hot = (base + index * HOT_SIZE) % (1 << 64)
        nth = index % nodes
        fires = HOT_SIZE + ENTRY_SIZE
        fire = hot + nodes * fires + nth * (FIRE_SIZE - HOT_SIZE)
        rare = hot + nodes * (fires + FIRE_SIZE) + nth * (RARE_SIZE - HOT_SIZE)
        return read(hot), read(hot + 8), fire, rare

    def timer(self, handle):
        """The timer of a handle, or None if it does not exist here."""
        node = self.node(handle >> LOW_BITS & (1 << INDEX_BITS) - 1)
        if (
            node is None
            or handle & (1 << FLAGS_BITS) - 1 != LIVE | ARMED
            or node[1] >> HIGH_SHIFT != handle >> HIGH_SHIFT
            or (node[0] ^ handle) & (GENERATION | LIVE)
        ):
            return None
        return Timer(self, handle, *node)

    def timers(self):
        for nth in range(FIRST, self.first_unused):
            # The rest of the first block is not used.
            index = nth if nth < SMALL else nth - SMALL + (1 << BLOCK_BITS)
            node = self.node(index)
            if node and node[0] & LIVE:
                high, low = node[1] >> HIGH_SHIFT << HIGH_SHIFT, node[0] & GENERATION
                yield Timer(self, high | index << LOW_BITS | low | LIVE | ARMED, *node)

    def __str__(self):
        driven = {0: "", 1: ", driven by its thread", 2: ", stopping"}
        return (
            f"clock {self.clock()}, tick {span(self.tick_ns)}, "
            f"hand at {span(self.ns(self.hand) or 0)}, {self.live()} timers, "
            f"{self.pending()} pending, {self.counted('fired')} fired"
            + driven.get(self.word("drive", 4), "")
        )


class Timer:
    def __init__(self, wheel, handle, state, link, fire, rare):
        self.wheel, self.handle, self.state, self.fire, self.rare = wheel, handle, state, fire, rare

    def deadline(self):
        """In nanoseconds of the wheel's clock, rounded up to a tick; None is never."""
        exponent = (self.state & EXPONENT) >> EXPONENT_SHIFT
        if exponent == 3 and self.state >> LOW_BITS == (1 << 64 - LOW_BITS) - 1:
            return None
        shift = UNIT_BITS * exponent
        near = self.wheel.hand >> shift
        ahead = signed((self.state >> LOW_BITS) - near, 64 - LOW_BITS)
        return self.wheel.ns((near + ahead) << shift)

    def kept(self, n):
        """A word of the rare record, if it is of this life."""
        word = read(self.rare + 8 * n)
        mine = self.state & RARE and word >> TAG_SHIFT == self.state >> FLAGS_BITS & 0xFFFF
        return word & VALUE if mine else 0

    def kind(self):
        """The kind, which has the whole generation, if it is of this life."""
        word = read(self.rare + 8)
        low = (self.handle & GENERATION) >> FLAGS_BITS
        generation = self.handle >> HIGH_SHIFT << LOW_BITS - FLAGS_BITS | low
        return word & 0xFFFF if self.state & RARE and word >> 16 == generation else 0

    def period(self):
        value = self.kept(0)
        return (value & ~LONG) << LONG_BITS if value & LONG else value

    def __str__(self):
        if self.state & ARMED:
            due = self.deadline()
            said = ["pending"]
            if due is None:
                said += ["due never"]
            else:
                said += [f"due at {span(due)}, {span(due - self.wheel.ns(self.wheel.hand))} ahead"]
        else:
            said = ["shut down" if self.state & EXPONENT else "not pending"]
        if self.state & RUNNING:
            said += ["its callback is queued or running"]
        elif read(self.wheel.address + LAYOUT["wheel.callback.running"]) == self.handle:
            said += ["its callback is running"]
        if self.period():
            kind = self.kind()
            missed = ", burst" if kind & BURST else ", delay" if kind & DELAY else ""
            said += [f"every {span(self.period())}{missed}"]
        if self.kind() & KEYED:
            # Its cookie and callback are with the key.
            return ", ".join(said + ["of a key"])
        function = read(self.fire)
        name = gdb.execute(f"info symbol {function:#x}", to_string=True).split(" in section")[0]
        if not function:
            said += ["an event"]
        else:
            said += [f"calls {hex(function) if name.startswith('No symbol') else name}"]
        return ", ".join(said + [f"cookie {read(self.fire + 8):#x}"])


# The wheels that were printed, as far as they still are.
printed = []


def is_wheel(type):
    type = type.strip_typedefs()
    if type.code != gdb.TYPE_CODE_PTR:
        return False
    target = type.target().unqualified().strip_typedefs()
    return target.code == gdb.TYPE_CODE_STRUCT and target.name == "hwheel"


def pointers(value, deep=True):
    """Addresses of wheels that a variable has, or a member of what it refers to."""
    try:
        type = value.type.strip_typedefs()
        if is_wheel(type):
            yield int(value)
            return
        if deep and type.code == gdb.TYPE_CODE_PTR:
            value, type = value.dereference(), type.target().strip_typedefs()
        if deep and type.code == gdb.TYPE_CODE_STRUCT:
            for field in type.fields():
                if hasattr(field, "bitpos") and field.name:
                    yield from pointers(value[field], False)
    except gdb.error:
        return


def in_sight():
    """Addresses of wheels: of the variables of the selected frame, then the printed ones."""
    try:
        frame = gdb.selected_frame()
        block = frame.block()
    except (gdb.error, RuntimeError):
        frame = block = None
    while block:
        for symbol in block:
            if symbol.is_variable or symbol.is_argument:
                try:
                    yield from pointers(symbol.value(frame))
                except (gdb.error, RuntimeError, TypeError):
                    pass
        block = block.superblock
    yield from printed


class WheelPrinter:
    def __init__(self, value):
        self.address = int(value)

    def to_string(self):
        if not self.address:
            return "NULL"
        try:
            said = str(Wheel(self.address))
        except NoWheel as why:
            return f"{self.address:#x} ({why})"
        if self.address not in printed:
            printed.append(self.address)
        return f"{self.address:#x} {{{said}}}"


class TimerPrinter:
    def __init__(self, value):
        self.handle = int(value)

    def to_string(self):
        if not self.handle:
            return "0"
        wheels = 0
        for address in dict.fromkeys(in_sight()):
            try:
                wheel = Wheel(address)
                wheels += 1
                timer = wheel.timer(self.handle)
                if timer:
                    return f"{self.handle:#x} {{{timer}}}"
            except NoWheel:
                continue
        where = "of no wheel in sight" if wheels else "no wheel is in sight: print one"
        return f"{self.handle:#x} {{{where}}}"


class Command(gdb.Command):
    """A wheel and its timers: hwheel WHEEL [N]. At most N timers, 20 unless told."""

    def __init__(self):
        super().__init__("hwheel", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, text, from_tty):
        words = gdb.string_to_argv(text)
        if not 1 <= len(words) <= 2 or (len(words) == 2 and not words[1].isdigit()):
            raise gdb.GdbError("usage: hwheel WHEEL [N]")
        value, most = gdb.parse_and_eval(words[0]), int(words[1]) if len(words) == 2 else 20
        try:
            wheel = Wheel(int(value))
            print(f"{wheel.address:#x} {{{wheel}}}")
            for n, timer in enumerate(wheel.timers()):
                if n == most:
                    print(f"  and {wheel.live() - most} more")
                    break
                print(f"  {timer.handle:#x} {{{timer}}}")
        except NoWheel as why:
            raise gdb.GdbError(str(why)) from None


class Printers(gdb.printing.PrettyPrinter):
    def __call__(self, value):
        if is_wheel(value.type):
            return WheelPrinter(value)
        type = value.type.unqualified()
        if type.code == gdb.TYPE_CODE_TYPEDEF and type.name == "hwheel_timer_t":
            return TimerPrinter(value)
        return None


gdb.printing.register_pretty_printer(None, Printers("hwheel"), replace=True)
Command()
