"""deploy/kubernetes: the manifests fit together, each pod is bounded and hardened, and what it reads is there."""

from __future__ import annotations

import re
import shutil
from typing import Any

import promql_parser
import pytest
import yaml

from app.config import Settings
from tests.deployed import KUBERNETES, PROBE_PORT, image_environment, last_stage, manifests
from tests.processes import ROOT
from tests.test_deploy_compose import known_settings

Object = dict[str, Any]

OBJECTS = [*manifests("example"), *(each for each in manifests("migrate") if each["kind"] == "Job")]
(SECRET,) = yaml.safe_load_all((KUBERNETES / "example" / "secret.yaml").read_text())


def of_kind(*kinds: str) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] in kinds}


def pod(each: Object) -> Object:
    return dict(each["spec"]["template"]["spec"])


def container(each: Object) -> Object:
    (found,) = pod(each)["containers"]
    return dict(found)


WORKLOADS = of_kind("Deployment", "Job")
DEPLOYMENTS = of_kind("Deployment")
EACH = pytest.mark.parametrize("name", sorted(WORKLOADS))
EACH_DEPLOYMENT = pytest.mark.parametrize("name", sorted(DEPLOYMENTS))


def environment(each: Object) -> dict[str, str]:
    """What the container sees: the image's, the ConfigMap's, its own. Every reference is followed."""
    told = container(each)
    found = image_environment()
    for source in told["envFrom"]:
        found |= of_kind("ConfigMap")[source["configMapRef"]["name"]]["data"]
    return found | {variable["name"]: variable["value"] for variable in told.get("env", [])}


def test_there_is_everything() -> None:
    assert sorted((each["kind"], each["metadata"]["name"]) for each in OBJECTS) == [
        ("ConfigMap", "punctual"),
        ("Deployment", "punctual-scheduler"),
        ("Deployment", "punctual-web"),
        ("Deployment", "punctual-worker"),
        ("HorizontalPodAutoscaler", "punctual-worker"),
        ("Ingress", "punctual"),
        ("Job", "punctual-migrate"),
        ("PodDisruptionBudget", "punctual-scheduler"),
        ("PodDisruptionBudget", "punctual-web"),
        ("PodDisruptionBudget", "punctual-worker"),
        ("Service", "punctual-web"),
        ("ServiceAccount", "punctual"),
    ]


@pytest.mark.parametrize("folder", ["config", "migrate", "programs", "example"])
def test_kubectl_builds_what_the_files_say(folder: str) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed: the manifests are only looked at by the other tests")

    def told(each: Object) -> tuple[str, str, object]:
        return each["kind"], each["metadata"]["name"], each.get("spec", each.get("data"))

    written = {told(each)[:2]: told(each)[2] for each in manifests(folder)}
    for kind, name, spec in map(told, manifests(folder, kubectl)):
        expected: Any = written.pop((kind, name))
        if kind in ("Deployment", "Job"):
            assert expected["template"]["spec"]["containers"][0]["image"] == "punctual"
            expected["template"]["spec"]["containers"][0]["image"] = "punctual:0.1.0"
        assert spec == expected
    assert written == {}


@EACH_DEPLOYMENT
def test_selectors_meet_the_labels_of_one_program_alone(name: str) -> None:
    labels = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["labels"]
    assert DEPLOYMENTS[name]["spec"]["selector"]["matchLabels"] == labels == DEPLOYMENTS[name]["metadata"]["labels"]
    assert (
        labels["app.kubernetes.io/component"] == name.removeprefix("punctual-") == container(DEPLOYMENTS[name])["name"]
    )
    assert of_kind("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == labels
    (spread,) = pod(DEPLOYMENTS[name])["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels


@EACH_DEPLOYMENT
def test_a_disruption_leaves_somebody_at_work_and_can_go_on(name: str) -> None:
    budget = of_kind("PodDisruptionBudget")[name]["spec"]
    scalers = {
        each["spec"]["scaleTargetRef"]["name"]: each["spec"]["minReplicas"]
        for each in of_kind("HorizontalPodAutoscaler").values()
    }
    # One number, in one place: an apply would undo the autoscaler's.
    assert ("replicas" in DEPLOYMENTS[name]["spec"]) != (name in scalers)
    least = scalers.get(name) or DEPLOYMENTS[name]["spec"]["replicas"]
    left = budget["minAvailable"] if "minAvailable" in budget else least - budget["maxUnavailable"]
    assert 1 <= left < least


@EACH_DEPLOYMENT
def test_probes_ask_a_port_that_the_program_answers_on(name: str) -> None:
    told = container(DEPLOYMENTS[name])
    ports = {port["name"]: port["containerPort"] for port in told["ports"]}
    asked = {kind: told[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: probe["path"] for kind, probe in asked.items()} == {
        "startup": "/livez",
        "liveness": "/livez",
        "readiness": "/readyz",
    }
    variables = environment(DEPLOYMENTS[name])
    answered = Settings().port if name == "punctual-web" else int(variables["PROBE_PORT"])
    assert answered == (Settings().port if name == "punctual-web" else PROBE_PORT)
    assert {ports[probe["port"]] for probe in asked.values()} == {answered}
    assert str(answered) in dict(last_stage())["EXPOSE"].split()
    scraped = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["annotations"]
    assert (scraped["prometheus.io/port"], scraped["prometheus.io/path"]) == (str(answered), "/metrics")


@EACH
def test_what_a_program_reads_is_settings_and_its_secrets_are_mounted(name: str) -> None:
    told = environment(WORKLOADS[name])
    of_python = {key for key in told if key.startswith("PYTHON")} | {"PATH"}
    files = {key.removesuffix("_FILE"): path for key, path in told.items() if key.endswith("_FILE")}
    assert {*files, *(key for key in told if not key.endswith("_FILE"))} - of_python <= known_settings()
    (mount,) = (each for each in container(WORKLOADS[name])["volumeMounts"] if each["name"] == "secrets")
    (volume,) = (each for each in pod(WORKLOADS[name])["volumes"] if each["name"] == "secrets")
    assert volume["secret"]["secretName"] == SECRET["metadata"]["name"]
    assert {path.removeprefix(f"{mount['mountPath']}/") for path in files.values()} == set(SECRET["stringData"])
    assert set(files) == {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "METRICS_TOKEN"}


@EACH
def test_a_pod_meets_the_restricted_standard(name: str) -> None:
    told, holder = pod(WORKLOADS[name]), container(WORKLOADS[name])
    (user,) = (argument for instruction, argument in last_stage() if instruction == "USER")
    security = told["securityContext"]
    assert security["runAsNonRoot"] and f"{security['runAsUser']}:{security['runAsGroup']}" == user
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert holder["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert told["automountServiceAccountToken"] is False and told["enableServiceLinks"] is False
    assert told["serviceAccountName"] in of_kind("ServiceAccount")
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(told)
    # What it writes has a place, and an end.
    (scratch,) = (volume for volume in told["volumes"] if "emptyDir" in volume)
    assert scratch["emptyDir"]["sizeLimit"]
    assert {"name": scratch["name"], "mountPath": "/tmp"} in holder["volumeMounts"]


@EACH
def test_a_container_is_bounded(name: str) -> None:
    resources = container(WORKLOADS[name])["resources"]
    assert set(resources["requests"]) == set(resources["limits"]) == {"cpu", "memory"}


def test_the_service_and_the_ingress_lead_to_web() -> None:
    service = of_kind("Service")["punctual-web"]["spec"]
    web = DEPLOYMENTS["punctual-web"]
    assert service["selector"] == web["spec"]["template"]["metadata"]["labels"]
    (port,) = service["ports"]
    assert port["targetPort"] in {each["name"] for each in container(web)["ports"]}
    ingress = of_kind("Ingress")["punctual"]["spec"]
    (rule,) = ingress["rules"]
    assert rule["host"] in ingress["tls"][0]["hosts"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "punctual-web", "port": {"name": port["name"]}}


def test_workers_are_scaled_by_a_number_that_web_exports() -> None:
    scaler = of_kind("HorizontalPodAutoscaler")["punctual-worker"]["spec"]
    assert scaler["scaleTargetRef"]["name"] in DEPLOYMENTS
    (metric,) = scaler["metrics"]
    (rule,) = yaml.safe_load((KUBERNETES / "example" / "prometheus-adapter.yaml").read_text())["rules"]["external"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    asked = promql_parser.parse(rule["seriesQuery"])
    assert str(asked) in str(promql_parser.parse(rule["metricsQuery"]))
    documented = re.findall(r"^\| `(\w+)` \| (.*?) \| web", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    assert ("queue_depth", "`status`") in documented and asked.name == "queue_depth"


def test_migrations_run_to_their_end_and_are_tried_again() -> None:
    job = of_kind("Job")["punctual-migrate"]["spec"]
    assert job["template"]["spec"]["restartPolicy"] == "OnFailure" and job["backoffLimit"] > 3
    assert not {"livenessProbe", "readinessProbe", "ports"} & set(container(WORKLOADS["punctual-migrate"]))


def test_the_example_holds_no_real_secret() -> None:
    assert all("CHANGE-ME" in value for value in SECRET["stringData"].values())
