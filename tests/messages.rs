//! What switches and controllers say to each other, in Rust, is what `controller.proto` describes.
//! The file is kept, so that building weir takes neither protoc nor a protobuf compiler in Rust.

use std::path::Path;

#[test]
fn the_kept_messages_are_those_of_the_description() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/network/rpc");
    let described = protox::compile(["controller.proto"], [&directory]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .bytes(".weir")
        .skip_debug([".weir.controller.v1.Welcome"])
        .build_transport(false)
        .out_dir(out.path())
        .compile_fds(described)
        .unwrap();
    let generated = std::fs::read_to_string(out.path().join("weir.controller.v1.rs")).unwrap();
    let kept = directory.join("generated.rs");
    if std::env::var_os("WEIR_GENERATE").is_some() {
        std::fs::write(&kept, &generated).unwrap();
    }
    let same = std::fs::read_to_string(&kept).is_ok_and(|kept| kept == generated);
    assert!(same, "generated.rs is out of date: WEIR_GENERATE=1 cargo test --test messages");
}
