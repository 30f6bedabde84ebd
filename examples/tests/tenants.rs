//! The input file: each fault is reported with its line.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use tenure_examples::feeds::tenants::{self, Tenant};

fn error(text: &[u8]) -> String {
    tenants::read("t.csv", text).expect_err("the input is wrong").to_string()
}

#[test]
fn the_file_in_the_repository_has_two_hundred_tenants() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tenants.csv");
    assert_eq!(tenants::load(&path).unwrap().len(), 200);
}

#[test]
fn quotes_blank_lines_and_windows_line_ends_are_fine() {
    let text = b"id,name,region,symbol\r\n\r\nacme,\"Acme, Inc.\",eu-west, ACME \r\n";
    let tenant = Tenant {
        id: "acme".into(),
        name: "Acme, Inc.".into(),
        region: "eu-west".into(),
        symbol: "ACME".into(),
    };
    assert_eq!(tenants::read("t.csv", text).unwrap(), [tenant]);
}

#[test]
fn a_wrong_field_count_names_its_line() {
    let text = b"id,name,region,symbol\na,A,eu,AAA\nb,B,eu\n";
    assert_eq!(error(text), "t.csv:3: has 3 fields, expected 4 (id,name,region,symbol)");
    let text = b"id,name,region,symbol\na,A,eu,AAA,x\n";
    assert_eq!(error(text), "t.csv:2: has 5 fields, expected 4 (id,name,region,symbol)");
}

#[test]
fn lines_count_as_an_editor_counts_them() {
    for text in [
        "id,name,region,symbol\n\n\na,A,eu,AAA\n\"b\",\"two\nlines\",eu,BBB\n\nbad\n",
        "id,name,region,symbol\r\n\r\n\r\na,A,eu,AAA\r\n\"b\",\"two\r\nlines\",eu,BBB\r\n\r\nbad\r\n",
    ] {
        assert_eq!(error(text.as_bytes()), "t.csv:8: has 1 fields, expected 4 (id,name,region,symbol)");
    }
}

#[test]
fn ids_are_present_unique_and_short_enough_for_a_key() {
    assert_eq!(error(b"id,name,region,symbol\n ,A,eu,AAA\n"), "t.csv:2: the id is empty");
    let text = b"id,name,region,symbol\na,A,eu,AAA\nb,B,eu,BBB\na,C,eu,CCC\n";
    assert_eq!(error(text), "t.csv:4: the id \"a\" stands in line 2 already");
    let text = format!("id,name,region,symbol\n{},A,eu,AAA\n", "x".repeat(513));
    assert_eq!(error(text.as_bytes()), "t.csv:2: the id has 513 bytes, at most 512 are allowed");
    let text = format!("id,name,region,symbol\n{},A,eu,AAA\n", "x".repeat(512));
    assert_eq!(tenants::read("t.csv", text.as_bytes()).unwrap().len(), 1);
}

#[test]
fn a_file_without_header_tenants_or_text_is_refused() {
    let expected = "t.csv:1: the header must be \"id,name,region,symbol\", found \"a,A,eu,AAA\"";
    assert_eq!(error(b"a,A,eu,AAA\n"), expected);
    assert_eq!(error(b"id,name,region,symbol\n"), "t.csv: has no tenants");
    assert_eq!(error(b""), "t.csv: has no tenants");
    assert_eq!(error(b"id,name,region,symbol\na,\xff,eu,AAA\n"), "t.csv:2: is not UTF-8");
}

#[test]
fn a_missing_file_is_named() {
    let error = tenants::load(Path::new("/nowhere/t.csv")).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere/t.csv: cannot be read");
}
