"""Renders the chart with Helm's own engine.

Reads a JSON list of values (YAML) from standard input and prints a JSON list: for each what was rendered, its objects,
and what is wrong with it.
"""

import json
import sys

import helm_python
import kubernetes_validate
import yaml

# Of custom resources; their schemas are not in Kubernetes.
FOREIGN = ("gateway.networking.k8s.io/", "monitoring.coreos.com/", "security.openshift.io/")


def parse(values):
    """The values as `helm -f` reads them."""
    return helm_python.values_from_yaml(values) if values.strip() else {}


def problem(value):
    """What Kubernetes would say about an object; None if nothing."""
    if value["apiVersion"].startswith(FOREIGN):
        return None
    try:
        kubernetes_validate.validate(value, "1.37", strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{value['kind']} {'.'.join(map(str, error.path))}: {error.message}"
    return None


def render(chart, values):
    """One line of the answer."""
    try:
        files = chart.render(parse(values), name="goodput", namespace="gpu-monitoring")
    except helm_python.HelmError as error:
        return {"error": str(error)}
    files = {path: text for path, text in sorted(files.items()) if text.strip()}
    texts = [text for path, text in files.items() if path.endswith(".yaml")]
    objects = [value for text in texts for value in yaml.safe_load_all(text) if value]
    return {
        "text": "".join(f"# {path}\n{text.strip()}\n\n" for path, text in files.items()),
        "objects": objects,
        "problems": [found for found in map(problem, objects) if found],
    }


def main():
    chart = sys.argv[1]
    findings = [found for found in helm_python.lint(chart, strict=True)["messages"] if found["severity"] > 1]
    with helm_python.Chart.load(chart) as loaded:
        rendered = [render(loaded, values) for values in json.load(sys.stdin)]
    json.dump({"lint": findings, "rendered": rendered}, sys.stdout)


main()
