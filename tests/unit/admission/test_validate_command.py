"""`grove validate` says file, document, field and remedy, and its exit status can be relied on."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from grove.cli.main import main
from manifests import tables


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["validate", *map(str, arguments)], input=given)


def test_the_examples_are_in_order() -> None:
    result = run("--config", tables.EXAMPLES / "operator-configuration.yaml", tables.EXAMPLES)
    assert result.exit_code == 0, result.output
    assert "0 wrong" in result.output


def test_a_problem_is_told_with_file_document_field_and_remedy(tmp_path: Path) -> None:
    wrong = tables.varied(tables.base(), {"router.spec.minAvailable": 9, "metadata.name": "second"})
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump_all([tables.base(), wrong]))
    result = run(path)
    assert result.exit_code == 1
    assert (
        f"{path}: document 2 (PodCliqueSet second): spec.template.cliques[0].spec.minAvailable: Invalid value: 9: "
        "must not be greater than replicas 3 (raise replicas or lower minAvailable)"
    ) in result.output
    assert "2 checked, 1 wrong" in result.output


def test_sets_that_would_share_names_are_told(tmp_path: Path) -> None:
    other = tables.varied(tables.base(), {"metadata.name": "base-0-pool"})
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump_all([tables.base(), other]))
    result = run(path)
    assert result.exit_code == 1
    assert "metadata.name" in result.output
    assert "would be called like one of PodCliqueSet 'base'" in result.output
    elsewhere = tables.varied(other, {"metadata.namespace": "elsewhere"})
    path.write_text(yaml.safe_dump_all([tables.base(), elsewhere]))
    assert run(path).exit_code == 0


def test_a_misspelt_field_is_told() -> None:
    document = tables.varied(tables.base(), {"router.spec.minAvailabel": 1})
    result = run("-", given=yaml.safe_dump(document))
    assert result.exit_code == 1
    assert "stdin: document 1" in result.output
    assert "spec.template.cliques[0].spec.minAvailabel: Forbidden: unknown field" in result.output


def test_the_levels_of_the_operator_count_when_they_are_given(tmp_path: Path) -> None:
    constrained = tables.varied(tables.base(), {"spec.template.topologyConstraint": {"packDomain": "region"}})
    text = yaml.safe_dump(constrained)
    assert run("-", given=text).exit_code == 0
    result = run("--config", tables.EXAMPLES / "operator-configuration.yaml", "-", given=text)
    assert result.exit_code == 1
    assert "topology level 'region' not defined in ClusterTopology 'grove-topology'" in result.output


def test_lists_are_looked_into_and_other_kinds_passed_over() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [tables.base(), {"apiVersion": "v1", "kind": "Secret"}]}
    result = run("-", given=yaml.safe_dump_all([listed, None, {"apiVersion": "v1", "kind": "Service"}]))
    assert result.exit_code == 0
    assert "1 checked, 0 wrong" in result.output


def test_a_file_that_is_not_yaml_is_another_matter(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("a: [")
    result = run(path)
    assert result.exit_code == 2
    assert "is not YAML" in result.output
    configured = run("--config", path, path)
    assert configured.exit_code == 2
    missing = run(tmp_path / "none.yaml")
    assert missing.exit_code == 2
    assert missing.stderr == f"error: {tmp_path / 'none.yaml'}: cannot be read: No such file or directory\n"


def test_a_cluster_topology_is_checked_too() -> None:
    levels = [{"domain": "rack", "key": "a"}, {"domain": "host", "key": "a"}]
    document = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopology", "spec": {"levels": levels}}
    result = run("-", given=yaml.safe_dump(document))
    assert result.exit_code == 1
    assert "spec.levels[1].key: Duplicate value" in result.output
