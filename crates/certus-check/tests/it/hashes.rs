//! SHA-256 at known answers, and the hash tree.

use certus_check::{hex, leaf, root, sha256};

/// Of "abcd…" (bytes 97 + i mod 26) of these lengths, from Python's hashlib: around the ends of blocks of 64 bytes.
#[test]
fn known_answers() {
    for (length, first) in [
        (0, "e3b0c44298fc1c14"),
        (3, "ba7816bf8f01cfea"),
        (55, "595615dbe4f0f407"),
        (56, "784f623b78749507"),
        (63, "5ca3e1ef5207490e"),
        (64, "2fcd5a0d60e4c941"),
        (65, "1b3cd1877ab2f2f1"),
        (119, "faef67da856d6fd9"),
        (120, "c9512b08619c19fb"),
        (1000, "915e53a44c18b19b"),
    ] {
        let bytes: Vec<u8> = (0..length).map(|i| 97 + (i % 26) as u8).collect();
        assert!(hex(&sha256(&[&bytes])).starts_with(first), "{length}");
        // in parts it is the same
        let (a, b) = bytes.split_at(length / 3);
        assert_eq!(sha256(&[a, b]), sha256(&[&bytes]));
    }
}

#[test]
fn every_leaf_and_its_place_change_the_root() {
    for count in 1..10u8 {
        let leaves: Vec<_> = (0..count).map(|k| leaf(&[k])).collect();
        let whole = root(&leaves);
        for k in 0..usize::from(count) {
            let mut other = leaves.clone();
            other[k] = leaf(&[100]);
            assert_ne!(root(&other), whole);
            if k > 0 {
                let mut other = leaves.clone();
                other.swap(0, k);
                assert_ne!(root(&other), whole);
            }
        }
        assert_ne!(root(&leaves[1..]), whole);
    }
    // a node is not a leaf of its children's hashes
    let (a, b) = (leaf(&[1]), leaf(&[2]));
    assert_ne!(root(&[a, b]), leaf(&[a, b].concat()));
}
