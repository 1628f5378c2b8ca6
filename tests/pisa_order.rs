//! Running a burst stage by stage leaves the same registers and PHVs, bit for bit, as packet by
//! packet: for random programs of every shape that the pipeline takes.

use proptest::prelude::*;
use weir::pisa::{
    AccessTrace, Array, ArrayGroup, BATCH, Banked, BatchOrder, Compute, GroupSalu, LookupTrace, Members, Pipeline,
    Probe, Repeat, Salu, Slot, Stage, StageUse, Step, Then,
};

const FIELDS: usize = 4;
const CELLS: u32 = 8;
/// A field of the PHV names the slot.
const SLOT: &str = "index";

/// A PHV of a few fields that a random program reads and writes.
type Fields = [u32; FIELDS];

/// What a stateful ALU does with its cell.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Add,
    SaturatingSub,
    Swap,
    Max,
    Xor,
    /// Keeps the larger, gives the smaller on: HashPipe's comparison.
    KeepLarger,
}

/// A random stateful ALU: fields by number.
#[derive(Clone, Copy, Debug)]
struct Random {
    operation: Operation,
    index: usize,
    shift: u32,
    operand: usize,
    target: usize,
    /// Predicated off when this field has this bit set.
    predicate: (usize, u32),
}

impl Salu for Random {
    type Phv = Fields;
    type Cell = u32;
    type Out = u32;

    fn enabled(&self, phv: &Fields) -> bool {
        let (field, bit) = self.predicate;
        phv[field] >> bit & 1 == 0
    }

    /// Slots past the end of the array are part of the test: they touch nothing.
    fn slot(&self, phv: &Fields) -> Slot {
        Slot((phv[self.index] >> self.shift) % (CELLS + 1))
    }

    fn rmw(&self, cell: u32, phv: &Fields) -> (u32, u32) {
        let operand = phv[self.operand];
        match self.operation {
            Operation::Add => (cell.wrapping_add(operand), cell),
            Operation::SaturatingSub => (cell.saturating_sub(operand), cell),
            Operation::Swap => (operand, cell),
            Operation::Max => (cell.max(operand), cell),
            Operation::Xor => (cell ^ operand, cell),
            Operation::KeepLarger => (cell.max(operand), cell.min(operand)),
        }
    }

    fn commit(&self, out: u32, phv: &mut Fields) {
        phv[self.target] = out;
    }
}

/// The same for every packet.
#[derive(Clone, Copy, Debug)]
struct Everywhere(Random);

impl Salu for Everywhere {
    type Phv = Fields;
    type Cell = u32;
    type Out = u32;
    const ALWAYS: bool = true;

    fn slot(&self, phv: &Fields) -> Slot {
        self.0.slot(phv)
    }

    fn rmw(&self, cell: u32, phv: &Fields) -> (u32, u32) {
        self.0.rmw(cell, phv)
    }

    fn commit(&self, out: u32, phv: &mut Fields) {
        self.0.commit(out, phv);
    }
}

fn salu() -> impl Strategy<Value = Random> {
    let operation = prop_oneof![
        Just(Operation::Add),
        Just(Operation::SaturatingSub),
        Just(Operation::Swap),
        Just(Operation::Max),
        Just(Operation::Xor),
        Just(Operation::KeepLarger),
    ];
    (operation, 0..FIELDS, 0..29u32, 0..FIELDS, 0..FIELDS, (0..FIELDS, 0..32u32)).prop_map(
        |(operation, index, shift, operand, target, predicate)| Random {
            operation,
            index,
            shift,
            operand,
            target,
            predicate,
        },
    )
}

fn array(salu: Random) -> Array<Random> {
    Array::new("random", salu, CELLS).at(SLOT)
}

/// A random group: each array takes another field.
#[derive(Clone, Copy, Debug)]
struct Sided(Random);

const SIDES: usize = 3;

impl Sided {
    fn alone(self, array: usize) -> Random {
        Random { operand: (self.0.operand + array) % FIELDS, ..self.0 }
    }
}

impl GroupSalu<SIDES> for Sided {
    type Phv = Fields;
    type Cell = u32;

    fn enabled(&self, phv: &Fields) -> bool {
        self.0.enabled(phv)
    }

    fn slot(&self, phv: &Fields) -> Slot {
        self.0.slot(phv)
    }

    fn rmw(&self, array: usize, cell: u32, phv: &Fields) -> u32 {
        self.alone(array).rmw(cell, phv).0
    }
}

/// A packet ends when the first field is 0.
#[derive(Clone, Copy, Debug)]
struct Ending(Random);

impl Salu for Ending {
    type Phv = Fields;
    type Cell = u32;
    type Out = u32;
    const UNTIL_END: bool = true;

    fn enabled(&self, phv: &Fields) -> bool {
        !Self::ended(phv)
    }

    fn ended(phv: &Fields) -> bool {
        phv[0] == 0
    }

    fn slot(&self, phv: &Fields) -> Slot {
        self.0.slot(phv)
    }

    fn rmw(&self, cell: u32, phv: &Fields) -> (u32, u32) {
        self.0.rmw(cell, phv)
    }

    fn commit(&self, out: u32, phv: &mut Fields) {
        self.0.commit(out, phv);
    }
}

/// A stage without memory.
#[derive(Clone, Copy, Debug)]
struct Mix(Random);

impl Compute for Mix {
    type Phv = Fields;

    fn compute(&self, phv: &mut Fields) {
        phv[self.0.target] = phv[self.0.operand].rotate_left(self.0.shift) ^ phv[self.0.index];
    }

    fn describe(&self, phv: &Fields) -> String {
        phv[self.0.target].to_string()
    }
}

/// A stretch of one's own: packets with this bit skip its array, and the stretches behind it as well.
#[derive(Clone, Debug)]
struct Gate<P> {
    field: usize,
    bit: u32,
    behind: P,
}

impl<P: Pipeline<Fields>> Pipeline<Fields> for Gate<P> {
    fn packet(&mut self, phv: &mut Fields) {
        if phv[self.field] >> self.bit & 1 == 0 {
            phv[self.field] ^= 1;
            self.behind.packet(phv);
        }
    }

    fn trace(&mut self, phv: &mut Fields, probe: &mut dyn Probe) {
        if phv[self.field] >> self.bit & 1 == 0 {
            phv[self.field] ^= 1;
            self.behind.trace(phv, probe);
        }
    }

    fn batch(&mut self, phvs: &mut [Fields], members: &mut Members, slots: &mut [Slot; BATCH]) {
        let mut passing = members.only(phvs, |phv| phv[self.field] >> self.bit & 1 == 0);
        assert!(passing.len() <= members.len() && passing.places().is_sorted());
        passing.each(phvs, |_, phv| phv[self.field] ^= 1);
        self.behind.batch(phvs, &mut passing, slots);
    }

    fn usage(&self, stages: &mut Vec<StageUse>) {
        self.behind.usage(stages);
    }
}

type Group = ArrayGroup<Sided, SIDES>;
type Beside = Stage<(Array<Random>, Vec<Array<Random>>, (Array<Everywhere>, Group))>;
type Last = Then<Stage<Array<Everywhere>>, Stage<Group>>;
type Program = Then<Beside, Then<Step<Mix>, Then<Repeat<Stage<Array<Random>>>, Last>>>;

fn program([first, later, group]: [Vec<Random>; 3]) -> Program {
    let everywhere = |salu| Array::new("everywhere", Everywhere(salu), CELLS).at(SLOT);
    let sided = |salu| ArrayGroup::new("sided", Sided(salu), CELLS).at(SLOT);
    let vector = first[1..].iter().copied().map(array).collect();
    let beside = Stage((array(first[0]), vector, (everywhere(group[0]), sided(group[1]))));
    let step = Step::new("mix", Mix(group[0]), StageUse::default());
    let later = Repeat(later.into_iter().map(|salu| Stage(array(salu))).collect());
    let last = Then(Stage(everywhere(group[1])), Stage(sided(group[0])));
    Then(beside, Then(step, Then(later, last)))
}

/// The stateful ALUs of a random program: of the first stage, of those behind it, and of the groups
/// and the arrays that every packet touches.
fn salus() -> impl Strategy<Value = [Vec<Random>; 3]> {
    use proptest::collection::vec;
    [vec(salu(), 1..6).boxed(), vec(salu(), 0..6).boxed(), vec(salu(), 2).boxed()]
}

/// The arrays of the first stage, and of the others.
fn cells_of(program: &Program) -> [Vec<Vec<u32>>; 2] {
    let Then(Stage((one, vector, (everywhere, sided))), Then(_, Then(Repeat(later), last))) = program;
    let random = |array: &Array<Random>| array.registers().cells().to_vec();
    let sides = |group: &Group| -> Vec<Vec<u32>> {
        let side = |side: usize| group.registers().cells().iter().map(|cells| cells[side]).collect();
        (0..SIDES).map(side).collect()
    };
    let first = std::iter::once(one).chain(vector).map(random);
    let first = first.chain([everywhere.registers().cells().to_vec()]).chain(sides(sided));
    let Then(Stage(everywhere), Stage(group)) = last;
    let others = later.iter().map(|stage| random(&stage.0)).chain([everywhere.registers().cells().to_vec()]);
    [first.collect(), others.chain(sides(group)).collect()]
}

fn cells(program: &Program) -> Vec<Vec<u32>> {
    cells_of(program).concat()
}

/// What a trace told: the number of stages, each array in order, and what a stage without memory
/// computed.
#[derive(Default)]
struct Steps {
    stages: usize,
    accesses: Vec<AccessTrace>,
    computed: Vec<String>,
}

impl Probe for Steps {
    fn stage(&mut self) {
        self.stages += 1;
    }

    fn access(&mut self, access: AccessTrace) {
        match access.computed {
            Some(computed) => self.computed.push(format!("{}: {computed}", access.array)),
            None => self.accesses.push(access),
        }
    }

    fn lookup(&mut self, lookup: LookupTrace) {
        panic!("a program looks nothing up: {lookup:?}");
    }
}

impl Steps {
    /// Each array was met once, and all its cells but the one that was told are as they were.
    fn hold(&self, stages: usize, before: &[Vec<u32>], after: &[Vec<u32>]) {
        assert_eq!((self.accesses.len(), self.stages, self.computed.len()), (before.len(), stages, 1));
        assert!(self.computed[0].starts_with("mix: "));
        for ((access, before), after) in self.accesses.iter().zip(before).zip(after) {
            let mut expected = before.clone();
            if let Some(cell) = &access.cell {
                match before.get(cell.slot as usize) {
                    None => assert_eq!((&*cell.before, &*cell.output), ("outside the array", "nothing")),
                    Some(was) => {
                        assert_eq!(cell.before, was.to_string());
                        expected[cell.slot as usize] = cell.after.parse().unwrap();
                    }
                }
            }
            assert_eq!(&expected, after);
        }
    }
}

proptest! {
    #[test]
    fn both_orders_leave_the_same_state(
        salus in salus(),
        packets in proptest::collection::vec(any::<Fields>(), 0..200),
        burst in 1..100usize,
    ) {
        let program = program(salus);
        let run = |order| {
            let (mut program, mut packets) = (program.clone(), packets.clone());
            packets.chunks_mut(burst).for_each(|burst| program.run(burst, order));
            (cells(&program), packets)
        };
        prop_assert_eq!(run(BatchOrder::PacketMajor), run(BatchOrder::StageMajor));
    }

    /// The same of packets whose slots are found before: those of one array that sees the same of
    /// all of them, and those of a group that sees a field of each.
    #[test]
    fn packets_with_slots_leave_the_same_state(
        salu in salu(),
        seen: Fields,
        packets in proptest::collection::vec(any::<Fields>(), 0..200),
        burst in 1..=BATCH,
    ) {
        // The slot comes from a field that is not counted.
        let operand = if salu.operand == salu.index { (salu.index + 1) % FIELDS } else { salu.operand };
        let salu = Random { operand, ..salu };
        let (everywhere, sided) = (Everywhere(salu), Sided(salu));
        let begin = || {
            let array = Stage(Array::new("everywhere", everywhere, CELLS).at(SLOT));
            (array, Stage(ArrayGroup::new("sided", sided, CELLS).at(SLOT)), Vec::new())
        };
        let cells = |array: &Stage<Array<Everywhere>>, group: &Stage<ArrayGroup<Sided, SIDES>>| {
            (array.0.registers().cells().to_vec(), group.0.registers().cells().to_vec())
        };

        let (mut array, mut group, mut outs) = begin();
        for mut packet in packets.iter().copied() {
            let mut phv = seen;
            phv[salu.index] = packet[salu.index];
            outs.push(if everywhere.slot(&phv).0 < CELLS {
                array.packet(&mut phv);
                phv[salu.target]
            } else {
                7
            });
            group.packet(&mut packet);
        }

        let (mut given, mut given_group, mut given_outs) = begin();
        for burst in packets.chunks(burst) {
            let slots: Vec<_> = burst.iter().map(|packet| salu.slot(packet)).collect();
            let mut outs = vec![7; burst.len()];
            given.with_slots(&slots, &seen, &mut outs);
            given_outs.extend(outs);
            let members = Members::of(burst.len(), |at| sided.enabled(&burst[at]));
            given_group.with_slots(&members, &slots, &mut burst.to_vec(), |packet| *packet);
        }
        prop_assert_eq!(cells(&given, &given_group), cells(&array, &group));
        prop_assert_eq!(given_outs, outs);
    }

    /// The same of stages that move the packets which go on: these are the same and in the same order,
    /// and the first stage shows what it gives each packet.
    #[test]
    fn sifted_packets_leave_the_same_state(
        first in salu(),
        later in proptest::collection::vec(salu(), 0..6),
        packets in proptest::collection::vec(any::<Fields>(), 0..200),
        burst in 1..=BATCH,
    ) {
        let stage = |salu: &Random| Stage(Array::new("ending", Ending(*salu), CELLS).at(SLOT));
        let stages = (stage(&first), Repeat(later.iter().map(stage).collect()));
        // No packet has ended at first.
        let packets: Vec<_> = packets.iter().map(|[a, b, c, d]| [a | 2, *b, *c, *d]).collect();
        let cells = |(first, later): &(Stage<Array<Ending>>, Repeat<Stage<Array<Ending>>>)| -> Vec<_> {
            [first].into_iter().chain(&later.0).map(|stage| stage.0.registers().cells().to_vec()).collect()
        };

        let (mut one_by_one, mut seen, mut left) = (stages.clone(), Vec::new(), Vec::new());
        for (place, mut phv) in (0..burst).cycle().zip(packets.iter().copied()) {
            let touches = first.slot(&phv).0 < CELLS;
            one_by_one.0.packet(&mut phv);
            seen.extend(touches.then_some((place, phv[first.target])));
            one_by_one.1.packet(&mut phv);
            left.extend((phv[0] != 0).then_some(phv));
        }

        let (mut sifted, mut sifted_seen, mut sifted_left) = (stages, Vec::new(), Vec::new());
        for burst in packets.chunks(burst) {
            let (mut phvs, mut slots) = ([[7; FIELDS]; BATCH], [Slot(7); BATCH]);
            phvs[..burst.len()].copy_from_slice(burst);
            let (first, later) = &mut sifted;
            let len = first.sift(&mut phvs, burst.len(), &mut slots, |place, out| sifted_seen.push((place, *out)));
            let len = later.sift(&mut phvs, len, &mut slots);
            sifted_left.extend_from_slice(&phvs[..len]);
        }
        prop_assert_eq!(cells(&sifted), cells(&one_by_one));
        prop_assert_eq!((sifted_seen, sifted_left), (seen, left));
    }

    /// A traced packet leaves the registers and the PHV as an untraced one, and what is told of
    /// each access is what happened to the cells.
    #[test]
    fn tracing_changes_nothing_and_tells_the_truth(
        salus in salus(),
        packets in proptest::collection::vec((any::<Fields>(), any::<bool>()), 0..60),
    ) {
        let program = program(salus);
        let mut usage = Vec::new();
        program.usage(&mut usage);
        let (mut plain, mut traced) = (program.clone(), program);
        for (packet, trace) in packets {
            let (mut phv, mut told) = (packet, packet);
            plain.packet(&mut phv);
            if trace {
                let before = cells(&traced);
                let mut probe = Steps::default();
                traced.trace(&mut told, &mut probe);
                probe.hold(usage.len(), &before, &cells(&traced));
            } else {
                traced.packet(&mut told);
            }
            prop_assert_eq!(phv, told);
            prop_assert_eq!(cells(&plain), cells(&traced));
        }
    }

    /// A stretch of one's own takes the members of a batch as it takes packets one by one.
    #[test]
    fn stretches_of_ones_own_see_the_members(
        salus in salus(),
        gates in [(0..FIELDS, 0..32u32), (0..FIELDS, 0..32u32)],
        packets in proptest::collection::vec(any::<Fields>(), 0..200),
        burst in 1..100usize,
    ) {
        let [outer, inner] = gates;
        let inner = Gate { field: inner.0, bit: inner.1, behind: program(salus) };
        let gated = Gate { field: outer.0, bit: outer.1, behind: inner };
        let run = |order| {
            let (mut gated, mut packets) = (gated.clone(), packets.clone());
            packets.chunks_mut(burst).for_each(|burst| gated.run(burst, order));
            (cells(&gated.behind.behind), packets)
        };
        prop_assert_eq!(run(BatchOrder::PacketMajor), run(BatchOrder::StageMajor));
    }

    /// The registers of all parts change hands as one bank: what is counted behind an exchange is what is
    /// counted from the beginning.
    #[test]
    fn stages_of_several_arrays_are_a_bank(
        salus in salus(),
        packets in [any::<[Fields; 20]>(), any::<[Fields; 20]>()],
    ) {
        let [mut first, mut second] = packets;
        let (mut swapped, mut fresh) = (program(salus.clone()), program(salus));
        let mut bank = swapped.zeroed();
        swapped.run(&mut first, BatchOrder::StageMajor);
        let counted = cells(&swapped);
        swapped.exchange(&mut bank);
        swapped.run(&mut second.clone(), BatchOrder::StageMajor);
        fresh.run(&mut second, BatchOrder::StageMajor);
        prop_assert_eq!(cells(&swapped), cells(&fresh));
        swapped.exchange(&mut bank);
        prop_assert_eq!(cells(&swapped), counted);
        Program::clear(&mut bank);
        swapped.exchange(&mut bank);
        prop_assert!(cells(&swapped).concat().iter().all(|cell| *cell == 0));
    }

    /// A group is its arrays, each alone with its own stateful ALU.
    #[test]
    fn a_group_is_its_arrays(salu in salu(), packets in proptest::collection::vec(any::<Fields>(), 0..60)) {
        let mut group = Stage(ArrayGroup::new("sided", Sided(salu), CELLS).at(SLOT));
        let mut alone = [0, 1, 2].map(|side| Stage(array(Sided(salu).alone(side))));
        for packet in packets {
            group.packet(&mut packet.clone());
            alone.iter_mut().for_each(|stage| stage.packet(&mut packet.clone()));
        }
        for (side, stage) in alone.iter().enumerate() {
            let cells: Vec<_> = group.0.registers().cells().iter().map(|cells| cells[side]).collect();
            prop_assert_eq!(stage.0.registers().cells(), cells);
        }
    }

    /// The arrays of one stage work side by side: each sees the PHV as it entered the stage, whether
    /// packets come one by one, in a batch or traced.
    #[test]
    fn arrays_of_a_stage_see_the_phv_that_entered_it(salus in salus(), packet: Fields, how in 0..3u8) {
        let mut all = program(salus.clone());
        let Then(stage, _) = &mut all;
        let mut phv = packet;
        match how {
            0 => stage.packet(&mut phv),
            1 => stage.run(std::slice::from_mut(&mut phv), BatchOrder::StageMajor),
            _ => stage.trace(&mut phv, &mut Steps::default()),
        }
        let [first, _, group] = salus;
        let expected = |salu: Random, always: bool| {
            let mut expected = vec![0; CELLS as usize];
            let slot = salu.slot(&packet).0 as usize;
            if let Some(cell) = expected.get_mut(slot).filter(|_| always || salu.enabled(&packet)) {
                *cell = salu.rmw(0, &packet).0;
            }
            expected
        };
        let sides = (0..SIDES).map(|side| expected(Sided(group[1]).alone(side), false));
        let alone = first.iter().map(|salu| expected(*salu, false)).chain([expected(group[0], true)]);
        prop_assert_eq!(&cells_of(&all)[0], &alone.chain(sides).collect::<Vec<_>>());
        let mut entered = packet;
        for (salu, always) in first.iter().map(|salu| (salu, false)).chain([(&group[0], true)]) {
            if (always || salu.enabled(&packet)) && salu.slot(&packet).0 < CELLS {
                salu.commit(salu.rmw(0, &packet).1, &mut entered);
            }
        }
        prop_assert_eq!(phv, entered, "outputs are written in order");
    }
}
