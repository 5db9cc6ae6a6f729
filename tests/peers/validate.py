# Reads JSON lines, and prints what JSON schemas refuse of them: validate.py DIR-OF-SCHEMAS NAME < LINES
import json
import pathlib
import sys
import urllib.parse

import jsonschema
import referencing

folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
schemas = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
resources = []
for schema in schemas.values():
    resource = referencing.Resource.from_contents(schema)
    resources.append((schema["$id"], resource))
    # Names of other schemas are paths below the address of the first.
    resources.append((urllib.parse.urlparse(schema["$id"]).path, resource))
registry = referencing.Registry().with_resources(resources)
checker = jsonschema.validators.validator_for(schemas[name])
checker.check_schema(schemas[name])
checker = checker(schemas[name], registry=registry, format_checker=checker.FORMAT_CHECKER)
for number, line in enumerate(sys.stdin):
    for error in checker.iter_errors(json.loads(line)):
        deepest = jsonschema.exceptions.best_match([error])
        print(f"{number} {deepest.json_path}: {deepest.message}")
