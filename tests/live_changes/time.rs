//! Where the workers' time goes.

use weir::api::Service;
use weir::api::view::{Status, WorkerProgram};
use weir::live::Live;

use super::lab::{balanced, base, eventually, file, frame, switch};

/// What the programs of this name took of all workers.
fn program(status: &Status, name: &str) -> WorkerProgram {
    let all = status.workers.iter().flat_map(|worker| &worker.programs).filter(|program| program.program == name);
    all.fold(WorkerProgram::default(), |sum, program| WorkerProgram {
        packets: sum.packets + program.packets,
        cycles: sum.cycles + program.cycles,
        ..sum
    })
}

fn busy(status: &Status) -> (u64, u64) {
    let each = status.workers.iter().map(|worker| (worker.packets, worker.busy_cycles));
    each.fold((0, 0), |(packets, cycles), (more, took)| (packets + more, cycles + took))
}

/// A live switch counts the packets and the time of its workers and of each program, and goes on
/// when a reload builds the programs anew.
#[test]
fn time_is_told_by_core_and_program() {
    let live: &Live = &switch();
    let service = live.service();
    let a = live.memory("a").unwrap();
    let status = || service.status();
    for words in ["hashpipe:stages=2,slots=64", "hashpipe:stages=3,slots=512"] {
        let mut config = base();
        config.programs = vec![words.parse().unwrap()];
        file(config);
        service.reload().unwrap();
        let before = status();
        let (was, had) = (busy(&before), program(&before, "hashpipe"));
        let sent = std::cell::Cell::new(0);
        // Bursts may hold several packets, and one in 17 is timed.
        eventually("a burst to be timed", live, |_| {
            sent.set(sent.get() + u64::from(a.inject(&frame(1, 2, 7))));
            program(&status(), "hashpipe").cycles > had.cycles
        });
        balanced(live);
        // The worker counts them at the end of the round.
        let counted = |status: &Status| (busy(status).0 - was.0, program(status, "hashpipe").packets - had.packets);
        eventually("all packets to be counted", live, |_| counted(&status()) == (sent.get(), sent.get()));
        let after = status();
        assert!(busy(&after).1 > was.1, "{words}: {after:?}");
        assert!(after.workers.iter().all(|worker| worker.idle_cycles > 0), "{after:?}");
    }
}
