//! `weir table` without a switch: what is wrong with the words and files.

use crate::{Files, weir};

#[test]
fn wrong_words_are_usage_errors() {
    let files = Files::new();
    files.write("bad.jsonl", "{\"op\": \"add\", \"name\": \"x\"}\n{\"op\": \"ad\"}\n");
    files.write("bad.toml", "[[change]]\nname = \"x\"\n");
    files.write("torn.jsonl", "{\"op\": \n");
    for (words, says) in [
        ("table add acl name", "write KEY=VALUE"),
        ("table add acl", "required"),
        ("table apply acl bad.jsonl", "bad.jsonl: line 2: op = \"ad\": one of add, set, remove"),
        ("table apply acl bad.toml", "bad.toml: change[0]: op = (missing): one of add, set, remove"),
        ("table apply acl torn.jsonl", "torn.jsonl: line 1: EOF"),
        ("table apply acl absent.jsonl", "absent.jsonl: No such file"),
        ("table add acl name=a name=b --socket nowhere.sock", "name is given twice"),
        ("table show a/b --socket nowhere.sock", "no table can be called"),
    ] {
        let ended = files.weir(words);
        assert_eq!(ended.code, 2, "{words}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{words}: {}", ended.stderr);
    }
}

#[test]
fn nobody_at_the_socket() {
    for words in ["list", "show acl", "add acl action=deny"] {
        let ended = weir(&format!("table {words} --socket /nonexistent/weir.sock"));
        assert!(ended.refused(1).contains("no switch answers at /nonexistent/weir.sock"), "{}", ended.stderr);
    }
}
