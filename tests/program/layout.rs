//! Each of weir's programs is as its layout describes it.

use weir::pisa::Layout;
use weir::pisa::hash::{HashFamily, HashLayout};
use weir::program::ProgramConfig;
use weir::wire::{FlowKey, Headers, Net, Tuple6};

use crate::layout_check::{is_what_is_built, key, names_slots, packets};

fn program(words: &str) -> ProgramConfig {
    words.parse().unwrap()
}

#[test]
fn layouts_are_what_is_built() {
    for words in [
        "hashpipe",
        "hashpipe:stages=3,slots=100,slots6=0,key=src,prefix=24",
        "hashpipe:stages=2,slots=64,slots6=7,key=pair,estimate=sum",
        "chamelemon",
        "chamelemon:tower=8x64+16x100+32x9,arrays=2,small=2",
        "chamelemon:names=0",
        "pint",
        "pint:bits=4,instances=2",
        "pint:queries=latency:bits=4:instances=2",
        "pint:queries=latency:bits=8:aggregation=sum",
        "pint:queries=utilisation:bits=8",
        "pint:queries=loops:bits=8",
        "disketch",
        "hopcounters",
        "hopcounters:memory=1000B",
        "disketch:sketch=cms,memory=1000B,counter_bits=16,single_hop=true",
    ] {
        let layout = is_what_is_built(&program(words));
        let memory: u64 = layout.arrays().iter().map(|place| place.usage.sram_bits()).sum();
        assert!((memory > 0) == (!words.starts_with("pint") || words.contains("utilisation")), "{words}: {memory}");
        assert!(!layout.hashes().is_empty() && !layout.fields().is_empty(), "{words}");
    }
}

/// Slots of the packet's own key: HashPipe's later stages look for the key that is carried.
#[test]
fn hashpipe_hashes_by_its_layout() {
    for words in
        ["hashpipe:slots=100", "hashpipe:slots=128,key=src,prefix=20", "hashpipe:key=pair,prefix6=60,slots6=33"]
    {
        let of_family = |_: &Layout, hash: &HashLayout, headers: &Headers| key(&hash.key, headers);
        let compared = names_slots(&program(words), &packets(), of_family, |_, index| index == 0);
        assert_eq!(compared, packets().len(), "{words}");
    }
}

/// What stands in a cell has been hashed there, in each stage.
#[test]
fn hashpipe_finds_keys_where_its_layout_has_them() {
    let (program, family) = (program("hashpipe:stages=4,slots=16,slots6=8"), HashFamily::reproducible(5));
    let (layout, mut replica) = (program.layout("s1").unwrap(), program.build("s1", &family).unwrap());
    replica.allocate();
    let phv = |headers| weir::pisa::Phv { headers, enters: true, ..Default::default() };
    let mut phvs: Vec<_> = packets().into_iter().map(phv).collect();
    replica.ingress(&mut phvs, weir::pisa::BatchOrder::Fastest);
    let mut bank = replica.spare();
    replica.exchange(bank.as_mut());
    let mut found = [0; 4];
    for (place, array) in layout.arrays().iter().zip(bank.arrays()) {
        let weir::pisa::SlotSource::Hash(hash) = &place.usage.slot else { panic!("a hash") };
        for (slot, fields) in (0..).zip(array.fields()).filter(|(_, fields)| fields[1] != [0; 4]) {
            let key: Vec<u8> = fields[0].iter().rev().copied().collect();
            assert_eq!(hash.slot_of_key(&family, &key), Some(slot), "{}[{}]", place.usage.name, place.index);
            found[place.index as usize] += 1;
        }
    }
    assert!(found.iter().all(|cells| *cells > 0), "{found:?}");
}

/// An ID's bytes: an IPv4 five-tuple, or the digest of an IPv6 one.
fn id(layout: &Layout, hash: &HashLayout, headers: &Headers) -> Option<Vec<u8>> {
    if headers.net == Net::Ipv4 {
        return key(&hash.key, headers);
    }
    let family = HashFamily::reproducible(23);
    let digests = layout.other_hashes.iter().map(|digest| {
        assert_eq!(digest.key[..], *Tuple6::FIELDS);
        digest.of_key(&family, &key(&digest.key, headers).unwrap())
    });
    let [a, b, c] = digests.collect::<Vec<_>>().try_into().unwrap();
    Some([&[a, b, c | 1].map(u32::to_be_bytes).concat()[..], &[255]].concat())
}

/// With one part of an encoder, which has all of the upstream rows.
#[test]
fn chamelemon_hashes_by_its_layout() {
    for tower in ["8x256+16x64", "8x1000+16x100"] {
        let config =
            format!("chamelemon:tower={tower},arrays=3,upstream=100,downstream=100,hh=0,hl=100,ll=0,hl_threshold=0");
        let counted = names_slots(&program(&config), &packets(), id, |array, _| array == "tower");
        assert_eq!(counted, 2 * packets().len(), "{tower}");
        let encoded = names_slots(&program(&config), &packets(), id, |array, _| array == "upstream");
        assert_eq!(encoded, 3 * 5 * packets().len(), "{tower}");
    }
}
