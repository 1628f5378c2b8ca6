use super::*;
use crate::cli::doctor::cgroup::{Limits, Memory};
use crate::cli::doctor::host::Host;
use crate::cli::doctor::{Status, machine::TOOLS};

/// A machine on which nothing is amiss.
fn good() -> Machine {
    Machine {
        dpdk: Some("DPDK 22.11.11".into()),
        program: "/opt/weir".into(),
        architecture: "x86_64",
        cpuinfo: "processor\t: 0\nflags\t\t: fpu sse4_2 pclmulqdq gfni vpclmulqdq avx512f avx512bw avx512vbmi\n".into(),
        meminfo: "MemAvailable:   8000000 kB\nHugePages_Total:     512\nHugePages_Free:      256\nHugepagesize:       2048 kB\n".into(),
        status: "Name:\tweir\nCapEff:\t0000008000003000\nCpus_allowed_list:\t0-3,8\n".into(),
        governors: vec!["performance".into()],
        routes: "Iface\tDestination\tGateway\neth0\t00000000\t0102000A\n".into(),
        tun: Access::Granted,
        iommu_groups: 9,
        user_namespaces: true,
        tools: TOOLS.map(|tool| (tool, true)).into(),
        sockets: "/run/weir".into(),
        host: Host {
            limits: "Max locked memory  unlimited  unlimited  bytes\n".into(),
            protocols: "XDP 1024\n".into(),
            isolated: "2,3".into(),
            usable_isolated: vec![2, 3],
            nohz_full: "2,3".into(),
            siblings: "8".into(),
            vhost_net: Access::Granted,
        },
        ..Machine::default()
    }
}

fn mend(check: &Check) -> &str {
    check.mend.as_deref().expect("says how to mend it")
}

#[test]
fn a_good_machine_has_nothing_to_mend() {
    for check in all(&good()) {
        assert_eq!((check.status, &check.mend), (Status::Ok, &None), "{check:?}");
    }
    assert_eq!(cores(&good()).found, "5");
}

#[test]
fn an_empty_machine_has_a_mend_for_whatever_is_amiss() {
    let nothing = Machine { architecture: "x86_64", sockets_error: Some("denied".into()), ..Machine::default() };
    let checks = all(&nothing);
    assert!(checks.iter().all(|check| check.status == Status::Ok || check.mend.is_some()), "{checks:?}");
}

#[test]
fn only_a_cpu_without_sse42_and_a_machine_without_memory_are_hopeless() {
    let old = Machine { cpuinfo: "flags : sse4_1\n".into(), ..good() };
    assert_eq!((cpu(&old).status, cpu(&old).vital), (Status::Missing, true));
    assert!(!cpu(&Machine { dpdk: None, ..old }).vital, "without DPDK it does not matter");
    let full = Machine { meminfo: "MemAvailable: 100000 kB\n".into(), ..good() };
    assert_eq!((memory(&full).status, memory(&full).vital), (Status::Missing, true));
    let arm = Machine { architecture: "aarch64", cpuinfo: "Features : crc32\n".into(), ..good() };
    assert_eq!(cpu(&arm).status, Status::Ok);
}

#[test]
fn huge_pages_that_others_hold_are_left_to_them() {
    let with = |total: u64, free: u64| {
        let meminfo = format!("HugePages_Total: {total}\nHugePages_Free: {free}\nHugepagesize: 2048 kB\n");
        huge_pages(&Machine { meminfo, ..good() })
    };
    assert_eq!(with(128, 128).status, Status::Ok);
    assert_eq!(mend(&with(0, 0)), "sudo sysctl vm.nr_hugepages=128");
    assert_eq!(mend(&with(512, 0)), "sudo sysctl vm.nr_hugepages=640");
    assert_eq!(mend(&with(100, 100)), "sudo sysctl vm.nr_hugepages=128");
}

#[test]
fn capabilities_are_told_apart() {
    let with = |hex: &str| Machine { status: format!("CapEff:\t{hex}\n"), ..good() };
    let raw = with("0000000000002000");
    assert_eq!(capability(&raw, "net-raw", NET_RAW).status, Status::Ok);
    let admin = capability(&raw, "net-admin", NET_ADMIN);
    assert_eq!(mend(&admin), "sudo setcap cap_net_admin,cap_net_raw=ep /opt/weir");
    assert_eq!(capability(&with("nonsense"), "net-raw", NET_RAW).status, Status::Missing);
}

#[test]
fn the_setting_that_forbids_user_namespaces_is_named() {
    let with = |restrictions: &[(&'static str, &str)]| {
        let restrictions = restrictions.iter().map(|(name, value)| (*name, value.to_string())).collect();
        user_namespaces(&Machine { user_namespaces: false, restrictions, status: String::new(), ..good() })
    };
    let ubuntu = [("kernel.apparmor_restrict_unprivileged_userns", "1"), ("user.max_user_namespaces", "100")];
    assert_eq!(mend(&with(&ubuntu)), "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0");
    assert_eq!(
        mend(&with(&[("kernel.unprivileged_userns_clone", "0")])),
        "sudo sysctl kernel.unprivileged_userns_clone=1"
    );
    assert_eq!(mend(&with(&[("user.max_user_namespaces", "0")])), "sudo sysctl user.max_user_namespaces=10000");
    assert!(mend(&with(&[])).starts_with("no command can"));
    let granted = user_namespaces(&Machine { user_namespaces: false, ..good() });
    assert_eq!(granted.status, Status::Ok, "root does without");
}

#[test]
fn a_nic_in_use_is_never_offered() {
    let nic = |driver: &str, interface: &str, busy| Nic {
        address: "0000:03:00.0".into(),
        driver: Some(driver.into()),
        interfaces: vec![interface.into()],
        busy,
    };
    let check = |nic: Nic| nic_check(&good(), &nic);
    assert_eq!(check(nic("virtio-pci", "eth0", false)).mend, None, "it has a route");
    assert_eq!(check(nic("ixgbe", "eth1", true)).mend, None, "it is up");
    assert!(mend(&check(nic("ixgbe", "eth1", false))).ends_with("--bind=vfio-pci 0000:03:00.0"));

    let addressed = |line: &str| {
        let machine = Machine { addresses: line.into(), ..good() };
        nic_check(&machine, &nic("ixgbe", "eth1", false)).mend
    };
    let v4 = "3: eth1    inet 192.0.2.1/32 scope global eth1\\       valid_lft forever\n";
    assert_eq!(addressed(v4), None, "it has an address");
    assert!(addressed(&v4.replace("eth1", "eth10")).is_some(), "another one has");
    assert!(addressed("3: eth1    inet6 fe80::1/64 scope link \n").is_some(), "its own link-local address is no use");

    let six = "20010db8000000000000000000000000 40 00 00 00 00 00 00 00 eth1\n";
    let routed = Machine { routes6: six.into(), ..good() };
    assert_eq!(nic_check(&routed, &nic("ixgbe", "eth1", false)).mend, None, "it has an IPv6 route");
    let link_local = Machine { routes6: six.replacen("20010db8", "fe800000", 1), ..good() };
    assert!(nic_check(&link_local, &nic("ixgbe", "eth1", false)).mend.is_some());
}

#[test]
fn the_driver_to_bind_is_one_that_can_take_the_card() {
    let with = |iommu_groups, unsafe_vfio| binding(&Machine { iommu_groups, unsafe_vfio, ..good() }, "0000:03:00.0").1;
    let vfio = "sudo modprobe vfio-pci && sudo dpdk-devbind.py --bind=vfio-pci 0000:03:00.0";
    assert_eq!((with(9, false).as_str(), with(9, true).as_str()), (vfio, vfio));
    assert_eq!(
        with(0, true),
        "sudo modprobe vfio-pci && echo 1 | sudo tee /sys/module/vfio/parameters/enable_unsafe_noiommu_mode && \
         sudo dpdk-devbind.py --bind=vfio-pci 0000:03:00.0"
    );
    assert_eq!(
        with(0, false),
        "sudo modprobe uio_pci_generic && sudo dpdk-devbind.py --bind=uio_pci_generic 0000:03:00.0"
    );
}

#[test]
fn isolated_cores_count() {
    let isolated = Machine {
        status: "Cpus_allowed_list:\t0-1\n".into(),
        host: Host { isolated: "1-4".into(), usable_isolated: vec![1, 2, 3], ..good().host },
        ..good()
    };
    assert_eq!((cores(&isolated).found.as_str(), cores(&isolated).status), ("4", Status::Ok), "4 is not for it");
    let others = Machine { host: Host { usable_isolated: Vec::new(), ..isolated.host.clone() }, ..isolated };
    assert_eq!(cores(&others).found, "2");
}

/// A container has what its control group leaves it, if that is less than the machine has.
#[test]
fn limits_of_a_container_count() {
    let with = |limits| Machine { limits, ..good() };
    let memory = |limit: u64, available: u64| {
        super::memory(&with(Limits {
            memory: Some(Memory { limit: limit << 20, available: available << 20 }),
            cpus: None,
        }))
    };
    assert_eq!(memory(4096, 1500).found, "1500 MiB available of the 4096 MiB of the control group");
    let tight = memory(600, 100);
    assert_eq!((tight.status, tight.vital), (Status::Missing, true));
    assert!(tight.found == "only 100 MiB available of the 600 MiB of the control group", "{tight:?}");
    assert!(mend(&tight).contains("give the container or service"));
    assert_eq!(memory(1 << 30, 1 << 30).found, super::memory(&good()).found, "the machine has less");

    let cores = |cpus| super::cores(&with(Limits { cpus: Some(cpus), memory: None }));
    assert_eq!(cores(2.5).found, "5, and time of 2.50 by the control group: workers: 2 at most");
    assert_eq!(cores(2.0).found, "5, and time of 2.00 by the control group: workers: 1 at most");
    assert_eq!((cores(5.0).found.as_str(), cores(5.0).status), ("5", Status::Ok));
    assert_eq!(cores(1.0).status, Status::Warn);
    assert!(cores(0.5).found.contains("time of 0.50") && mend(&cores(0.5)).contains("more than one CPU"));
}

#[test]
fn an_iommu_is_asked_for_only_where_a_nic_could_use_it() {
    let with = |driver: &str, interface: &str| {
        let interfaces = vec![interface.to_owned()];
        let nic = Nic { address: "0000:03:00.0".into(), driver: Some(driver.into()), interfaces, busy: false };
        pci(&Machine { nics: vec![nic], iommu_groups: 0, ..good() }).iter().any(|check| check.name == "iommu")
    };
    assert!(with("ixgbe", "eth1"));
    assert!(with("vfio-pci", "none"));
    assert!(!with("virtio-pci", "eth0"));
}

#[test]
fn absent_tools_name_their_packages() {
    let tools = TOOLS.map(|tool| (tool, tool.name != "ping" && tool.name != "iperf3"));
    let check = super::tools(&Machine { tools: tools.into(), ..good() });
    assert_eq!(check.found, "not on the PATH: ping iperf3");
    assert!(mend(&check).ends_with(" iputils-ping iperf3"));
}

#[test]
fn a_slow_governor_is_reported() {
    let check = cores(&Machine { governors: vec!["powersave".into()], ..good() });
    assert_eq!(check.status, Status::Warn);
    assert!(mend(&check).starts_with("echo performance"));
}
