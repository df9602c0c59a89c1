"""Holds an Adaptive Card, on standard input, to the JSON schema that Microsoft publishes for its version."""

import importlib.util
import json
import pathlib
import sys

import jsonschema

card = json.load(sys.stdin)
package = importlib.util.find_spec("adaptive_cards").submodule_search_locations[0]
schema = pathlib.Path(package, "schemas", f"schema-{card['version']}.json")
validator = jsonschema.validators.validator_for(json.loads(schema.read_text()))(json.loads(schema.read_text()))
mistakes = [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(card)]
print("\n".join(mistakes))
sys.exit(bool(mistakes))
