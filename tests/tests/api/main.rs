//! The description of the JSON API, judged by the OpenAPI initiative's schema through openapi-spec-validator.

#![allow(clippy::unwrap_used, reason = "clippy spares tests, but not the helpers beside them")]

use std::fs;
use std::path::Path;
use std::process::Command;

use goodput_tests::venv;

/// The validator, pinned.
const VALIDATOR: &str = "openapi-spec-validator==0.7.2";

#[test]
fn the_description_is_valid_openapi() {
    let python = validator();
    let description = Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyzer/tests/fixtures/openapi.json");
    let (valid, said) = run(&python, &["-m", "openapi_spec_validator", "--schema", "3.1", text(&description)]);
    assert!(valid, "{said}");
    // It can say no.
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("broken.json");
    let whole = fs::read_to_string(&description).unwrap();
    fs::write(&broken, whole.replacen("\"responses\"", "\"answers\": 1, \"parameters\"", 1)).unwrap();
    let (valid, _) = run(&python, &["-m", "openapi_spec_validator", "--schema", "3.1", text(&broken)]);
    assert!(!valid);
}

/// A Python with the validator.
fn validator() -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openapi");
    text(&venv::programs(&folder, VALIDATOR, &[&[VALIDATOR]]).unwrap().join("python")).to_owned()
}

#[allow(clippy::disallowed_methods, reason = "runs the validator")]
fn run(program: &str, args: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
