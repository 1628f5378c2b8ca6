//! Tells the program how it was compiled and, with the feature `dpdk`, generates the bindings to the installed DPDK.

fn main() {
    // The directory of the profile, three above OUT_DIR: cargo calls one that is derived by the name of its parent.
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let profile = out.ancestors().nth(3).and_then(std::path::Path::file_name).expect("it is below the profile's");
    println!("cargo:rustc-env=WEIR_PROFILE={}", profile.display());
    println!("cargo:rustc-env=WEIR_OPTIMISATION={}", std::env::var("OPT_LEVEL").expect("cargo sets it"));
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::generate();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::{env, path::PathBuf, process};

    const HEADER: &str = "src/dpdk/shim.h";
    const OLDEST: &str = "22.11";
    const TYPES: &str = "weir_.*|rte_eth_stats|rte_ether_addr|cookie_io_functions_t";
    const VALUES: &str =
        "WEIR_.*|RTE_MEMPOOL_F_NO_IOVA_CONTIG|RTE_LOG_(EMERG|ALERT|CRIT|ERR|WARNING|NOTICE|INFO|DEBUG)";
    const FUNCTIONS: &[&str] = &[
        "weir_.*",
        "fopencookie",
        "rte_eal_(init|cleanup|get_runtime_dir|has_hugepages|hotplug_add|hotplug_remove)",
        "rte_eth_dev_(configure|start|stop|close|get_port_by_name|get_mtu|set_mtu|set_link_up|set_link_down|socket_id)",
        "rte_eth_(rx|tx)_queue_setup",
        "rte_eth_(promiscuous_enable|promiscuous_disable|macaddr_get|stats_get)",
        "rte_get_tsc_hz",
        "rte_log_cur_msg_loglevel",
        "rte_mempool_(free|avail_count)",
        "rte_openlog_stream",
        "rte_pktmbuf_copy",
        "rte_strerror",
        "rte_thread_(register|unregister)",
        "rte_version",
    ];

    pub fn generate() {
        println!("cargo:rerun-if-changed={HEADER}");
        let library = pkg_config::Config::new().atleast_version(OLDEST).probe("libdpdk").unwrap_or_else(|e| fail(&e));
        let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
        let wrappers = out.join("dpdk_inline.c");
        // pkg-config's crate drops "-include rte_config.h" and "-march", without which the headers do not compile.
        let mut flags = vec!["-include".to_owned(), "rte_config.h".to_owned()];
        if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
            flags.push("-march=corei7".to_owned());
        }
        flags.extend(library.include_paths.iter().map(|path| format!("-I{}", path.display())));

        let mut builder = bindgen::builder()
            .header(HEADER)
            .clang_args(&flags)
            .allowlist_type(TYPES)
            .allowlist_var(VALUES)
            .opaque_type("rte_mbuf|rte_mempool|_IO_FILE")
            .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned)
            .prepend_enum_name(false)
            .generate_comments(false)
            .layout_tests(false)
            .wrap_static_fns(true)
            .wrap_static_fns_path(&wrappers)
            .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()));
        for functions in FUNCTIONS {
            builder = builder.allowlist_function(functions);
        }
        let bindings = builder.generate().unwrap_or_else(|e| fail(&e));
        bindings.write_to_file(out.join("dpdk.rs")).expect("OUT_DIR can be written");

        let mut wrapper = cc::Build::new();
        wrapper.file(&wrappers).include(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).warnings(false);
        for flag in &flags {
            wrapper.flag(flag);
        }
        wrapper.compile("weir_dpdk_inline");
    }

    fn fail(error: &dyn std::fmt::Display) -> ! {
        println!(
            "cargo:warning=live ports need DPDK {OLDEST} or newer with headers, and libclang: apt-get install libdpdk-dev libclang-dev pkg-config"
        );
        println!("cargo:warning=or build without them: cargo build --no-default-features --features control");
        eprintln!("{error}");
        process::exit(1);
    }
}
