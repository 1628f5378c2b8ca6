//! The CPUs of a running switch's threads.

use std::fs;

use crate::common::{Lab, Lack, Weir, skip};

/// The CPUs that a thread may run on.
fn allowed(task: &str) -> Vec<usize> {
    let status = fs::read_to_string(format!("/proc/{task}/status")).expect("a thread's status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its CPUs").trim();
    let range = |words: &str| {
        let (first, last) = words.split_once('-').unwrap_or((words, words));
        first.parse().expect("a number")..=last.parse().expect("a number")
    };
    list.split(',').flat_map(range).collect()
}

/// Names and CPUs of all threads.
fn threads(weir: &Weir) -> Vec<(String, Vec<usize>)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", weir.process())).expect("it runs");
    let thread = |task: fs::DirEntry| {
        let task = format!("{}/task/{}", weir.process(), task.file_name().to_string_lossy());
        (fs::read_to_string(format!("/proc/{task}/comm")).expect("a name").trim().to_owned(), allowed(&task))
    };
    tasks.map(|task| thread(task.expect("an entry"))).collect()
}

/// Workers poll on their CPUs. Every other thread is kept off these, those of DPDK too; where no CPU
/// is left it may run on all.
#[test]
fn workers_have_their_cpus_to_themselves() {
    let name = "workers_have_their_cpus_to_themselves";
    let Some(lab) = Lab::new(name) else { return };
    let all = allowed("self");
    let Some((last, others)) = all.split_last().filter(|(_, others)| !others.is_empty()) else {
        return skip(name, Lack::Machine, "there is one CPU");
    };
    let every = all.iter().map(|cpu| format!(" --core {cpu}")).collect::<String>();
    for (cores, workers, rest) in [("", std::slice::from_ref(last), others), (&every, &all[..], &all[..])] {
        let ports = "--port a=null:rx=0 --port b=null:rx=0 --forward xconnect";
        let weir = Weir::start(&lab, &lab.switch, "switch", &format!("{ports} --program hashpipe{cores}"));
        let threads = threads(&weir);
        for worker in workers {
            assert!(threads.contains(&(format!("weir-{worker}"), vec![*worker])), "{threads:?}");
        }
        for name in ["weir", "weir-collector", "weir-api"] {
            assert!(threads.contains(&(name.to_owned(), rest.to_vec())), "{name}: {threads:?}");
        }
        let polls = |name: &str| workers.iter().any(|worker| name == format!("weir-{worker}"));
        assert!(threads.iter().all(|(name, cpus)| polls(name) || cpus == rest), "{threads:?}");
        weir.stop();
    }
}
