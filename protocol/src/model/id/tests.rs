//! Tests of names and ids.
use super::*;

#[test]
fn a_key_is_compared_with_text_both_ways() {
    let key = JobKey::try_from("acme").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(key, "acme");
    assert_eq!("acme", key);
    assert_ne!(key, "apex");
    assert_ne!("apex", key);
}

#[test]
fn a_key_of_text_is_shown_as_text() {
    let key = JobKey::try_from("acme");
    assert_eq!(key.as_ref().map(JobKey::as_str), Ok(Some("acme")));
    let bytes = JobKey::try_from(&[0xff, b'a'][..]);
    let shown = bytes.as_ref().map(|key| (key.as_str(), key.to_string()));
    assert_eq!(shown, Ok((None, "\\xffa".to_owned())));
}

#[test]
fn keys_are_any_bytes_within_bounds() {
    assert_eq!(JobKey::try_from(""), Err(IdError::Empty { what: "job key" }));
    assert_eq!(JobKey::new(vec![0; 600]), Err(IdError::TooLong { what: "job key", len: 600, max: 512 }));
    assert_eq!(JobKey::new(vec![0xff, b'|']).map(|k| k.to_string()), Ok("\\xff|".into()));
}

#[test]
fn names_keep_to_their_alphabet() {
    assert!(NodeName::new("a-b_c:9").is_ok());
    assert!(matches!(NodeName::new("a.b"), Err(IdError::Character { found: '.', .. })));
    assert!(matches!(PoolName::new("a{b"), Err(IdError::Character { found: '{', .. })));
    assert!(matches!(PoolName::new("x".repeat(65)), Err(IdError::TooLong { len: 65, .. })));
    for code in 0..=u8::MAX {
        let character = char::from(code);
        let allowed = character.is_ascii_alphanumeric() || "_:-.".contains(character);
        let name = PoolName::new(format!("a{character}b"));
        assert_eq!(name.is_ok(), allowed, "{character:?}");
        let found = matches!(name, Err(IdError::Character { found, .. }) if found == character);
        assert_eq!(found, !allowed, "{character:?}");
    }
}

#[test]
fn dispatch_ids_name_their_node_and_caller() {
    let id: DispatchId = "n1.!order.7".parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((id.node(), id.caller_id()), ("n1", Some("order.7")));
    let same = |a: &str, b: &str| Some(a.parse::<DispatchId>().ok()?.is_same(&b.parse().ok()?));
    assert_eq!(same("n1.!order", "n2.!order"), Some(true));
    assert_eq!(same("n1.!order", "n1.!other"), Some(false));
    assert_eq!(same("n1.order", "n2.order"), Some(false));
    assert_eq!(same("n1.order", "n1.!order"), Some(false));
    for bad in ["", "n1", "n1.", ".x", "n1.!", "n1.a|b", "n 1.x"] {
        assert!(bad.parse::<DispatchId>().is_err(), "{bad}");
    }
}
