//! Packets that left too late.

use super::*;

/// Packets that leave when their epoch has been answered spoil the answer, and no other than those around it.
#[test]
fn strays_of_an_epoch_that_has_been_answered() {
    let mut network = Network::new(&["a", "b"], 6);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let stray = network.edges[0].enter(5000, 8);
    network.epoch(90, &[]);
    assert!(network.newest().losses_complete, "it seems lost");
    network.edges[1].leave(stray);
    network.epoch(90, &[]);
    (0..3).for_each(|_| drop(network.epoch(90, &[])));
    let strays: Vec<_> = network.controller.answers().filter(|answers| !answers.losses_complete).collect();
    assert_eq!(strays.iter().map(|answers| answers.epoch).collect::<Vec<_>>(), [6, 8, 9, 10]);
    for answers in &strays[1..] {
        let gaps: Vec<_> = answers.gaps.iter().map(|gap| (&*gap.switch, gap.gap)).collect();
        assert_eq!(gaps, [("b", Gap::Strays { packets: 1 })], "{}", answers.epoch);
    }
}

/// So do those that a record tells of before the epoch has closed, and those of a record that comes too late.
#[test]
fn strays_told_early_or_late() {
    let mut network = Network::new(&["a", "b"], 6);
    (0..2).for_each(|_| drop(network.epoch(90, &[])));
    let [a8, b8] = network.records(90).try_into().unwrap();
    network.epoch = 9;
    let [_a9, mut b9] = network.records(90).try_into().unwrap();
    b9.sketches.strays = 2;
    let now = 10 * LENGTH + TRANSIT;
    network.controller.report("b", b8, now).unwrap();
    network.controller.report("b", b9, now).unwrap();
    network.controller.report("a", a8, now).unwrap();
    network.controller.answer();
    assert_eq!((network.newest().epoch, network.gaps()), (8, vec![("b".to_owned(), Gap::Strays { packets: 2 })]));
    network.epoch = 10;
    let [mut a10, _b10] = network.records(90).try_into().unwrap();
    a10.sketches.strays = u64::MAX;
    network.controller.tick(20 * LENGTH);
    for _ in 0..2 {
        let (sketches, first_epoch, epoch) = (a10.sketches.clone(), a10.first_epoch, a10.epoch);
        let late = network.controller.report("a", Report { sketches, first_epoch, epoch }, 20 * LENGTH);
        assert!(matches!(late, Err(ReportError::Late { .. })));
    }
    network.controller.answer();
    let nine = network.controller.answers().find(|answers| answers.epoch == 9).unwrap();
    let strays: Vec<_> = nine.gaps.iter().filter(|gap| matches!(gap.gap, Gap::Strays { .. })).collect();
    assert!(matches!(strays[..], [SwitchGap { gap: Gap::Strays { packets: u64::MAX }, .. }]), "{strays:?}");
}
