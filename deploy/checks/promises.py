"""Promises that no schema knows: what the files of the kit have to say so that each deploy moves each key about once.

    python promises.py [BUILT.yaml ...]    reads the kit, and the manifests of the overlays that kustomize has built

It prints what is broken, and ends with status 1 then. It needs PyYAML.
"""

import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
HELP = ROOT / "cli/tests/help"
# Beyond the drain: for the guard to kill what is left, and to end.
MARGIN = 10
# More of it where programs attach: nobody kills them, so the leases that they were told have to end first.
ATTACHED = 10

broken = []


def promise(holds, text):
    if not holds:
        broken.append(text)


def seconds(time):
    number, unit = re.fullmatch(r"(\d+)(s|m)?", str(time)).groups()
    return int(number) * (60 if unit == "m" else 1)


def options_of(command):
    """The options that `tenure COMMAND --help` lists."""
    page = HELP / f"{command}.txt"
    return set(re.findall(r"(?<![\w-])-{1,2}[a-z][a-z-]*", page.read_text())) if page.exists() else None


def commands_below(command):
    """The commands of a command that has some. Their options are on pages of their own, which the tests do not keep."""
    page = HELP / f"{command}.txt"
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", page.read_text(), re.MULTILINE) if page.exists() else None
    return set(re.findall(r"^  ([a-z]+)", listed[1], re.MULTILINE)) if listed else set()


def words_exist(where, words):
    """The command and its options exist. Those after `--` are the program's."""
    command = next((word for word in words if not word.startswith("-")), None)
    if command is None:
        promise(set(words) <= {"--help", "--version"}, f"{where}: tenure has no {' '.join(words)}")
        return
    options = options_of(command)
    promise(options is not None, f"{where}: there is no command tenure {command}")
    below = commands_below(command)
    if below:
        promise(set(words) & below, f"{where}: tenure {command} has none of its commands in {' '.join(words)}")
        return
    for word in words[: words.index("--")] if "--" in words else words:
        name = word.split("=")[0]
        if name.startswith("-") and options is not None:
            promise(name in options, f"{where}: tenure {command} has no option {name}")


def value_of(words, option, default=None):
    """The value that a command line gives to an option."""
    for word, following in zip(words, [*words[1:], ""]):
        if word.startswith(f"{option}="):
            return word.split("=", 1)[1]
        if word == option:
            return following
    return default


def worker(where, words, ends_after):
    """A command line of `tenure work` or `host`, and the seconds after SIGTERM after which it is killed."""
    words_exist(where, words)
    drain = seconds(value_of(words, "--drain", "25s"))
    margin = MARGIN + (ATTACHED if value_of(words, "--attach") else 0)
    late = f"{where}: it is killed after {ends_after} s, not {margin} s after its drain of {drain} s"
    promise(ends_after == drain + margin, late)
    # The node needs up to 3 s more to have them dead.
    grace = seconds(value_of(words, "--grace", "10s"))
    promise(grace + 3 < drain, f"{where}: programs have {grace} s to end, too many for a drain of {drain} s")
    return (value_of(words, "--listen") or ":").rsplit(":", 1)[1]


def json_line(text, instruction):
    return json.loads(re.search(rf"^{instruction} (\[.*\])$", text, re.MULTILINE)[1])


def docker():
    words = json_line((DEPLOY / "docker/Dockerfile").read_text(), "CMD")
    words_exist("docker/Dockerfile", words)
    text = (DEPLOY / "docker/app/Dockerfile").read_text()
    words = json_line(text, "ENTRYPOINT")
    exposed = re.search(r"^EXPOSE (\d+)$", text, re.MULTILINE)[1]
    promise(words[-1] == "--", "docker/app/Dockerfile: the program must come after --")
    promise(re.search(r"^USER [1-9]", text, re.MULTILINE), "docker/app/Dockerfile: it runs as root")
    return words[1:], exposed


def compose(words, exposed):
    kit = yaml.safe_load((DEPLOY / "compose/compose.yaml").read_text())
    service = kit["services"]["worker"]
    port = worker("compose/compose.yaml", words, seconds(service["stop_grace_period"]))
    scrape = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())["scrape_configs"][0]
    asked = scrape["dns_sd_configs"][0]["port"]
    for where, other in (("docker/app/Dockerfile", exposed), ("compose/prometheus.yml", asked)):
        promise(str(other) == port, f"{where}: port {other}, but workers listen at {port}")
    promise(scrape.get("honor_labels"), "compose/prometheus.yml: the label `node` would be renamed: honor_labels is not set")
    redis("compose/compose.yaml", kit["services"]["redis"]["command"])


def redis(where, words):
    promise(value_of(words, "--appendonly") == "yes", f"{where}: Redis forgets all at a restart: no append-only file")
    promise(value_of(words, "--maxmemory-policy") == "noeviction", f"{where}: Redis may evict records: the pool refuses that")


def systemd():
    where = "systemd/tenure-work@.service"
    # A key may stand on several lines; of these only the last counts here.
    unit = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / where).read_text(), re.MULTILINE))
    env = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd/feeds.env").read_text(), re.MULTILINE))
    command = unit["ExecStart"].replace("$TENURE_OPTIONS", env["TENURE_OPTIONS"])
    command = command.replace("${TENURE_LISTEN}", env["TENURE_LISTEN"])
    for name in re.findall(r"\$\{?(\w+)", unit["ExecStart"]):
        promise(name in env, f"systemd/feeds.env: the unit needs {name}")
    worker(where, command.split()[1:], seconds(unit["TimeoutStopSec"]))
    promise(unit["KillMode"] == "mixed", f"{where}: systemd would end the jobs itself: KillMode is not mixed")
    promise(unit.get("Delegate") == "yes", f"{where}: jobs get no cgroups: Delegate is not yes")
    promise("ProtectControlGroups" not in unit, f"{where}: jobs get no cgroups: ProtectControlGroups")


def kubernetes(where, documents):
    by_kind = {}
    for document in documents:
        by_kind.setdefault(document["kind"], []).append(document)
    (deployment,) = by_kind["Deployment"]
    spec = deployment["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    words = (container["command"] + container["args"])[1:]
    port = worker(where, words, pod["terminationGracePeriodSeconds"])
    promise(value_of(words, "--listen").startswith("0.0.0.0:"), f"{where}: the kubelet does not reach the probes")

    rolling = spec["strategy"].get("rollingUpdate", {})
    surge = (rolling.get("maxSurge"), rolling.get("maxUnavailable"))
    promise(surge == (1, 0), f"{where}: a new pod has to come before an old one goes")
    promise("preStop" not in container.get("lifecycle", {}), f"{where}: a preStop delays the drain")
    ports = {each["name"]: str(each["containerPort"]) for each in container["ports"]}
    for probe, path in (("startupProbe", "/livez"), ("readinessProbe", "/readyz"), ("livenessProbe", "/livez")):
        get = container[probe]["httpGet"]
        promise(get["path"] == path, f"{where}: {probe} asks {get['path']}, not {path}")
        promise(ports.get(get["port"], str(get["port"])) == port, f"{where}: {probe} asks another port than {port}")
    scraped = spec["template"]["metadata"]["annotations"].get("prometheus.io/port")
    promise(scraped == port, f"{where}: Prometheus asks port {scraped}, but the worker listens at {port}")
    names = {each["name"]: each for each in container["env"]}
    path = names.get("POD_NAME", {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
    promise(path == "metadata.name", f"{where}: the node is not named by its pod")
    secured(where, pod, container)
    hosts = 0
    for other in pod.get("initContainers", []):
        secured(where, pod, other)
        # Another one, such as a migration, is no host.
        if "TENURE_ATTACH" in env_of(other):
            hosts += 1
            attached(where, value_of(words, "--attach"), container, other)
    if value_of(words, "--attach"):
        workers = int(value_of(words, "--workers", 1))
        promise(hosts == workers, f"{where}: {hosts} programs attach to {workers} workers: it would never be ready")

    for kind, selector in [
        ("Deployment", spec["selector"]),
        *(("PodDisruptionBudget", each["spec"]["selector"]) for each in by_kind["PodDisruptionBudget"]),
        *(("NetworkPolicy", each["spec"]["podSelector"]) for each in by_kind["NetworkPolicy"]),
        *(("anti-affinity", each["podAffinityTerm"]["labelSelector"])
          for each in pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]),
        *(("spread", each["labelSelector"]) for each in pod.get("topologySpreadConstraints", [])),
    ]:
        promise(selector["matchLabels"].items() <= labels.items(), f"{where}: the {kind} does not select the worker's pods")
    for policy in by_kind["NetworkPolicy"]:
        let_in = {str(each["port"]) for rule in policy["spec"]["ingress"] for each in rule["ports"]}
        promise(let_in <= ports.keys() | {port}, f"{where}: the NetworkPolicy lets in {let_in}, not the port of the metrics")
    for other in by_kind.get("StatefulSet", []):
        pod = other["spec"]["template"]["spec"]
        redis(where, pod["containers"][0]["args"])
        secured(where, pod, pod["containers"][0])
    return deployment["metadata"]["name"]


def env_of(container):
    """The variables that a container sets by value."""
    return {each["name"]: each.get("value") for each in container.get("env", [])}


def attached(where, path, worker, host):
    """The host of a worker in a container of its own: it finds the socket, and outlives the worker."""
    name = host["name"]
    promise(host.get("restartPolicy") == "Always", f"{where}: {name} is no sidecar: it would end with the worker, or before it")
    given = env_of(host)
    promise(path and given.get("TENURE_ATTACH") == path, f"{where}: {name} attaches to another place than {path}")
    shared = [{(mount["name"], mount["mountPath"]) for mount in each.get("volumeMounts", [])} for each in (worker, host)]
    folders = {folder for _, folder in shared[0] & shared[1]}
    promise(str(Path(path or "/").parent) in folders, f"{where}: {name} and the worker do not share the socket's folder")


def secured(where, pod, container):
    """As the namespaces' `restricted` demands, and with a root file system that nobody writes."""
    own, name = container.get("securityContext", {}), container["name"]
    promise(pod["securityContext"].get("runAsNonRoot"), f"{where}: {name} may run as root")
    promise(own.get("readOnlyRootFilesystem"), f"{where}: {name} may write its root file system")
    promise(own.get("allowPrivilegeEscalation") is False, f"{where}: {name} may gain privileges")
    promise(own.get("capabilities", {}).get("drop") == ["ALL"], f"{where}: {name} keeps capabilities")
    promise(pod.get("automountServiceAccountToken") is False, f"{where}: {name} gets a token of Kubernetes")
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    known = {volume["name"] for volume in pod.get("volumes", [])} | {"data"}
    promise(mounted <= known, f"{where}: {name} mounts a volume that does not exist")


def keda(deployment):
    for path in sorted((DEPLOY / "keda").glob("*.yaml")):
        target = yaml.safe_load(path.read_text())["spec"]["scaleTargetRef"]["name"]
        promise(target == deployment, f"keda/{path.name}: there is no Deployment {target}")


def documents_of(text):
    return [document for document in yaml.safe_load_all(text) if document]


def page():
    """The commands of the page exist."""
    where = "docs/how-to/deploy.md"
    for block in re.findall(r"```sh\n(.*?)```", (ROOT / where).read_text(), re.DOTALL):
        for words in re.findall(r"^tenure (.+?)(?: *#.*)?$", block, re.MULTILINE):
            words_exist(where, words.split())


def kept(part, *given):
    """Looks at a part of the kit. One that lacks what it should have is broken, too."""
    try:
        return part(*given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        where = given[0] if given and isinstance(given[0], str) else part.__name__
        promise(False, f"{where}: it lacks something, or has it in another form: {error!r}")
        return None


def main():
    image = kept(docker)
    if image:
        kept(compose, *image)
    kept(systemd)
    base = [path for path in sorted((DEPLOY / "kubernetes/base").glob("*.yaml")) if path.name != "kustomization.yaml"]
    base = [each for path in base for each in documents_of(path.read_text())]
    deployment = kept(kubernetes, "kubernetes/base", base)
    for path in map(Path, sys.argv[1:]):
        kept(kubernetes, f"kubernetes overlay {path.stem}", documents_of(path.read_text()))
    if deployment:
        kept(keda, deployment)
    page()
    print("\n".join(broken), end="\n" if broken else "")
    sys.exit(bool(broken))


main()
