"""An API server in memory: what a write does, what it refuses, and what it leaves behind.

It is synchronous, so that a test can be the user, the scheduler or the kubelet in one line. The
operator under test gets `client()`, which is the asynchronous seam with faults and a log. What is
promised here is checked against a real server by tests/contract.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from et_kube import resources
from et_kube.api import APPLY_PATCH, MERGE_PATCH
from et_kube.errors import AlreadyExists, Conflict, NotFound, Refused
from et_kube.resources import PODS, SERVICE_ACCOUNTS, Json, Ref, Resource
from fakes import kinds, ownership
from fakes.documents import copy_json, copy_stored, merge_patch
from fakes.histories import Change, History
from fakes.ownership import Birth, Manager, Owners
from fakes.selectors import parse_field_selector, parse_label_selector

Document = dict[str, Any]
Documents = list[Document]
Kept = list[Any]
Operations = list[Any]
Refs = list[Ref]

FIRST_REVISION = 1000
LONGEST_GRACE = 10**11
"""Seconds that a date can still say; Go's dates go further than Python's."""
_MAX_BEGINNING = 58
"""Characters of a generateName; what is longer is cut off."""
FOREGROUND = "foregroundDeletion"
SOMEBODY = "somebody"
"""The field manager of who does not say which he is."""
_KINDS = {(r.api_version, r.kind): r for r in vars(resources).values() if isinstance(r, Resource)}


@dataclass(frozen=True, slots=True)
class Backup:
    """All objects at one revision, as a snapshot of etcd has them."""

    revision: int
    objects: Mapping[Ref, Document]
    owners: Mapping[str, Owners | Birth]


class FakeCluster:
    """The stored objects and their history. Every method raises errors.* as a server answers.

    Args:
        now: the time of the cluster, timezone-aware.
        seed: makes the uids; equal seeds and equal writes give equal clusters.
    """

    def __init__(self, now: Callable[[], datetime], seed: int = 0) -> None:
        self.now = now
        self.history = History(FIRST_REVISION)
        self.seed = seed
        self._objects: dict[Ref, Document] = {}
        self._owners: dict[str, Owners | Birth] = {}
        """By uid; without what was written into a status."""
        self._made = 0
        self._clean_at = 0

    # ------------------------------------------------------------ reads
    def get(self, ref: Ref) -> Document:
        """A copy of one object."""
        return self._copy(self._find(ref))

    def find(self, ref: Ref) -> Document | None:
        """A copy of one object, or None."""
        return self._copy(self._objects[ref]) if ref in self._objects else None

    def get_managed(self, ref: Ref) -> Document:
        """The object, with who has which of its fields."""
        found = self.get(ref)
        entries = ownership.encode(self._find_owners(ref), ref.resource.api_version)
        found["metadata"]["managedFields"] = entries
        return found

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        cached: bool = False,
        keep: Callable[[Document], Any] = lambda document: document,
    ) -> Kept:
        """Copies, by namespace and name; `cached` is as far as watches have been shown.

        What `keep` makes of each is listed in its place before the next one is copied.
        """
        labels = parse_label_selector(label_selector)
        fields = parse_field_selector(field_selector)
        objects = {r: d for r, d in self._objects.items() if r.resource == resource}
        for change in self.history.list_hidden(resource) if cached else ():
            if change.old is None:
                objects.pop(change.ref, None)
            else:
                objects[change.ref] = change.old
        chosen = sorted(
            (r.namespace, r.name, d)
            for r, d in objects.items()
            if namespace in {None, r.namespace} and labels(d) and fields(d)
        )
        return [keep(self._copy(document)) for _, _, document in chosen]

    def scan(self, resource: Resource) -> Documents:
        """The stored objects themselves, by namespace and name, for those who only look."""
        found = [
            (r.namespace, r.name, d) for r, d in self._objects.items() if r.resource == resource
        ]
        return [document for _, _, document in sorted(found)]

    # ------------------------------------------------------------ writes
    def create(
        self,
        resource: Resource,
        namespace: str | None,
        manifest: Json,
        *,
        manager: str = SOMEBODY,
    ) -> Document:
        """Store a new object."""
        ref, document = self._admit(resource, namespace, manifest)
        self._store(ref, document)
        self._owners[document["metadata"]["uid"]] = Birth(Manager(manager, "Update"), document)
        return self.get(ref)

    def dry_run(self, resource: Resource, namespace: str | None, manifest: Json) -> Document:
        """The object that `create` would store."""
        return self._admit(resource, namespace, manifest)[1]

    def _admit(
        self, resource: Resource, namespace: str | None, manifest: Json
    ) -> tuple[Ref, Document]:
        document: Document = copy_json(manifest)
        metadata = document["metadata"] = kinds.read_metadata(resource, document)
        place = (namespace or "") if resource.namespaced else ""
        self._check_place(resource, document, place)
        if not metadata.get("name") and metadata.get("generateName"):
            beginning = metadata["generateName"][:_MAX_BEGINNING]
            metadata["name"] = beginning + self._make_uid()[:5]
        ref = Ref(resource, place, metadata.get("name") or "")
        if not ref.name:
            raise kinds.invalid(ref, "metadata.name: Required value: name or generateName")
        kinds.validate_metadata(ref, metadata)
        document = kinds.prepare_create(ref, document)
        self._check_service_account(ref, document)
        if ref in self._objects:
            message = f'{resource.plural} "{ref.name}" already exists'
            raise AlreadyExists(409, "AlreadyExists", message)
        metadata = document["metadata"]
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(field, None)
        document |= {"apiVersion": resource.api_version, "kind": resource.kind}
        metadata["uid"] = self._make_uid()
        metadata["creationTimestamp"] = self._format(self.now())
        if resource.namespaced:
            metadata["namespace"] = place
        if kinds.has_generation(resource):
            metadata["generation"] = 1
        return ref, document

    def patch(
        self,
        ref: Ref,
        body: Json | Operations,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        manager: str = SOMEBODY,
    ) -> Document:
        """Change an object, its `status` or its `scale`; the answer is what was asked about."""
        if content_type == APPLY_PATCH:
            return self._patch_applied(ref, body, Manager(manager, "Apply"))
        old = self._find(ref)
        if subresource == "scale":
            return self._patch_scale(ref, old, body, Manager(manager, "Update", "scale"))
        return self._patch(ref, old, body, subresource, content_type, Manager(manager, "Update"))

    def _patch(
        self,
        ref: Ref,
        old: Document,
        body: Json | Operations,
        subresource: str,
        content_type: str,
        who: Manager,
    ) -> Document:
        new = self._change(old, body, content_type)
        new["metadata"] = kinds.read_metadata(ref.resource, new)
        given = new["metadata"].pop("managedFields", None)
        is_metadata_ignored = subresource == "status" and kinds.is_custom(ref.resource)
        self._check_identity(ref, old, new, is_uid_checked=not is_metadata_ignored)
        if subresource == "status":
            new = kinds.prepare_status_update(ref, old, new)
        elif subresource:
            raise NotFound(404, "NotFound", "the server could not find the requested resource")
        else:
            new = kinds.prepare_update(ref, old, new)
        if subresource:
            self._update(ref, old, new)
        else:
            owners = ownership.decode(given) if given else self._find_owners(ref)
            schema = kinds.build_schema(ref.resource)
            self._update(ref, old, new, ownership.note_update(owners, who, old, new, schema))
        return self.find(ref) or self._copy(new)

    def _patch_applied(self, ref: Ref, body: Any, who: Manager) -> Document:
        metadata, schema = body["metadata"], kinds.build_schema(ref.resource)
        if metadata.get("managedFields"):
            raise Refused(400, "BadRequest", "metadata.managedFields must be nil")
        if ref not in self._objects:
            if metadata.get("uid"):
                message = f'Operation cannot be fulfilled on {ref.resource.plural} "{ref.name}": '
                raise Conflict(409, "Conflict", f"{message}uid mismatch")
            stored = self.create(ref.resource, ref.namespace, body)
            _, owners = ownership.apply({}, who, {}, body, schema)
            self._owners[stored["metadata"]["uid"]] = owners
            return stored
        old = self._find(ref)
        new, owners = ownership.apply(self._find_owners(ref), who, old, body, schema)
        new["metadata"] = kinds.read_metadata(ref.resource, new)
        self._check_identity(ref, old, new, is_uid_checked=True)
        self._update(ref, old, kinds.prepare_update(ref, old, new), owners)
        return self.find(ref) or self._copy(new)

    def delete(
        self,
        ref: Ref,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete at once, or mark as leaving while finalizers or a running pod need time."""
        old = self._find(ref)
        metadata = old["metadata"]
        for field, wanted in (("uid", uid), ("resourceVersion", resource_version)):
            if wanted is not None and wanted != metadata[field]:
                message = f"Precondition failed: {field} in precondition: {wanted}"
                raise Conflict(409, "Conflict", f"{message}, in object meta: {metadata[field]}")
        if propagation == "Orphan":
            self._orphan(metadata["uid"])
        finalizers = list(metadata.get("finalizers", ()))
        if propagation == "Foreground" and FOREGROUND not in finalizers:
            finalizers.append(FOREGROUND)
        seconds = kinds.choose_grace_seconds(old, grace_seconds)
        if seconds == 0 and not finalizers:
            self.remove(ref)
        elif seconds < metadata.get("deletionGracePeriodSeconds", seconds + 1):
            self._mark_deleted(ref, old, seconds, finalizers)

    def edit(self, ref: Ref, change: Callable[[Document], None]) -> Document:
        """What scheduler, kubelet and other servers' parts do: no rules but versions and events."""
        old = self._find(ref)
        new = copy_stored(old)
        change(new)
        self._update(ref, old, new)
        return new  # type: ignore[no-any-return]

    def remove(self, ref: Ref) -> None:
        """The object is gone, whatever held it."""
        old = self._objects.pop(ref)
        self._owners.pop(old["metadata"]["uid"], None)
        self._made += 1
        last = copy_stored(old)
        last["metadata"]["resourceVersion"] = str(self.history.revision + 1)
        self.history.append(Change(self.history.revision + 1, ref, old, None, last))

    # ------------------------------------------------------------ backups
    def back_up(self) -> Backup:
        """Everything as it is now."""
        return Backup(self.history.revision, dict(self._objects), dict(self._owners))

    def restore(self, backup: Backup, *, bump: int = 0) -> None:
        """Etcd is set back to a snapshot. Its revision is too, plus `bump`; no uid is made twice.

        Objects have their resourceVersions of then, whatever `bump` is.
        """
        self._objects, self._owners = dict(backup.objects), dict(backup.owners)
        self.history.restore(backup.revision, bump)
        self._clean_at = 0

    # ------------------------------------------------------------ garbage collection
    def collect_garbage(self) -> bool:
        """One round of the garbage collector; whether it found work. Run it until it does not."""
        revision = self.history.revision
        if revision != self._clean_at:
            for ref in list(self._objects):
                if ref in self._objects:
                    self._collect(ref, self._objects[ref])
        if self.history.revision == revision:
            self._clean_at = revision
        return self.history.revision != revision

    def _collect(self, ref: Ref, document: Document) -> None:
        metadata = document["metadata"]
        owners = metadata.get("ownerReferences") or []
        present = [o for o in owners if self._is_present(ref, o)]
        if owners and not present and "deletionTimestamp" not in metadata:
            self.delete(ref, uid=metadata["uid"])
        elif present and len(present) < len(owners):
            self.edit(ref, lambda d: d["metadata"].update(ownerReferences=present))
        elif FOREGROUND in metadata.get("finalizers", ()):
            self._collect_foreground(ref, metadata["uid"])

    def _collect_foreground(self, ref: Ref, uid: str) -> None:
        blocking = False
        for dependent in self._find_dependents(uid):
            blocking |= any(
                o["uid"] == uid and o.get("blockOwnerDeletion")
                for o in self._objects[dependent]["metadata"]["ownerReferences"]
            )
            self.delete(dependent)
        if not blocking:
            self.edit(ref, lambda d: d["metadata"]["finalizers"].remove(FOREGROUND))

    def _is_present(self, ref: Ref, owner: Json) -> bool:
        resource = _KINDS.get((owner["apiVersion"], owner["kind"]))
        if resource is None:
            return True
        place = ref.namespace if resource.namespaced else ""
        found = self._objects.get(Ref(resource, place, owner["name"]))
        return found is not None and found["metadata"]["uid"] == owner["uid"]

    def _find_dependents(self, uid: str) -> Refs:
        return [
            ref
            for ref, document in self._objects.items()
            if any(o["uid"] == uid for o in document["metadata"].get("ownerReferences") or ())
        ]

    def _orphan(self, uid: str) -> None:
        for ref in self._find_dependents(uid):
            owners = self._objects[ref]["metadata"]["ownerReferences"]
            kept = {"ownerReferences": [o for o in owners if o["uid"] != uid]}
            self.edit(ref, partial(_update_metadata, kept))

    # ------------------------------------------------------------ inside
    def _find(self, ref: Ref) -> Document:
        if ref not in self._objects:
            raise NotFound(404, "NotFound", f'{ref.resource.plural} "{ref.name}" not found')
        return self._objects[ref]

    def _store(self, ref: Ref, document: Document) -> None:
        old = self._objects.get(ref)
        document["metadata"]["resourceVersion"] = str(self.history.revision + 1)
        self._objects[ref] = document
        self.history.append(Change(self.history.revision + 1, ref, old, document, document))

    def _update(self, ref: Ref, old: Document, new: Document, owners: Owners | None = None) -> None:
        metadata = new["metadata"]
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        is_same = owners is None or owners == self._find_owners(ref)
        if owners is not None:
            self._owners[metadata["uid"]] = owners
        if new == old and is_same:
            return
        if "generation" in metadata and not kinds.is_asked_for_the_same(old, new):
            metadata["generation"] = old["metadata"]["generation"] + 1
        is_free = not metadata.get("finalizers")
        if is_free and metadata.get("deletionGracePeriodSeconds") == 0:
            self.remove(ref)  # the update that lets it go is never stored
        else:
            self._store(ref, new)

    def _mark_deleted(self, ref: Ref, old: Document, seconds: int, finalizers: Any) -> None:
        new = copy_stored(old)
        metadata = new["metadata"]
        moment = self.now() + timedelta(seconds=min(seconds, LONGEST_GRACE))
        metadata["deletionTimestamp"] = self._format(moment)
        metadata["deletionGracePeriodSeconds"] = seconds
        if finalizers:
            metadata["finalizers"] = finalizers
        if "generation" in metadata:
            metadata["generation"] += 1
        self._store(ref, new)

    def _find_owners(self, ref: Ref) -> Owners:
        """Who has what of a stored object."""
        uid = self._objects[ref]["metadata"]["uid"]
        found = self._owners.get(uid, {})
        if isinstance(found, Birth):
            found = self._owners[uid] = found.list_owners(kinds.build_schema(ref.resource))
        return found

    def _patch_scale(self, ref: Ref, old: Document, body: Any, who: Manager) -> Document:
        path = kinds.find_scale_path(ref)
        replicas = (body.get("spec") or {}).get("replicas")
        version = (body.get("metadata") or {}).get("resourceVersion")
        change: Document = {"metadata": {"resourceVersion": version}} if version else {}
        if isinstance(replicas, int):
            inner = change
            for part in path[:-1]:
                inner = inner.setdefault(part, {})
            inner[path[-1]] = replicas
        new = self._patch(ref, old, change, "", MERGE_PATCH, who)
        asked: Any = new
        for part in path:
            asked = asked.get(part, {})
        status = {"replicas": new.get("status", {}).get("replicas", 0)}
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {k: new["metadata"][k] for k in kept},
            "spec": {"replicas": asked},
            "status": status | {"selector": new.get("status", {}).get("selector", "")},
        }

    def _change(self, old: Document, body: Any, content_type: str) -> Document:
        if content_type == MERGE_PATCH:
            return merge_patch(copy_stored(old), body)  # type: ignore[no-any-return]
        raise Refused(415, "UnsupportedMediaType", f"{content_type} is not supported here")

    def _check_identity(
        self, ref: Ref, old: Document, new: Document, *, is_uid_checked: bool
    ) -> None:
        before, after = old["metadata"], new["metadata"]
        version = after.get("resourceVersion") or before["resourceVersion"]
        if version != before["resourceVersion"]:
            message = f'Operation cannot be fulfilled on {ref.resource.plural} "{ref.name}": '
            raise Conflict(409, "Conflict", message + "the object has been modified")
        if is_uid_checked and (after.get("uid") or before["uid"]) != before["uid"]:
            message = kinds.invalid(ref, "metadata.uid: Invalid value: field is immutable").message
            raise Conflict(422, "Invalid", message)
        if after.get("name") != ref.name:
            raise Refused(400, "BadRequest", "the name of the object does not match the URL")
        kinds.validate_metadata(ref, after)
        for field in (
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            after.pop(field, None)
            if field in before:
                after[field] = before[field]

    def _check_place(self, resource: Resource, document: Document, place: str) -> None:
        inside = document["metadata"].get("namespace")
        if resource.namespaced and inside not in {None, "", place}:
            message = "the namespace of the provided object does not match the namespace sent"
            raise Refused(400, "BadRequest", message)
        kind = (document.get("apiVersion"), document.get("kind"))
        if kind not in {(resource.api_version, resource.kind), (None, None)}:
            raise Refused(400, "BadRequest", f"{kind} does not match {resource.kind}")

    def _check_service_account(self, ref: Ref, document: Document) -> None:
        name = document["spec"].get("serviceAccountName") if ref.resource == PODS else None
        if name and Ref(SERVICE_ACCOUNTS, ref.namespace, name) not in self._objects:
            fault = f'error looking up service account {ref.namespace}/{name}: "{name}" not found'
            raise Refused(403, "Forbidden", f'pods "{ref.name}" is forbidden: {fault}')

    def _make_uid(self) -> str:
        self._made += 1
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.seed}/{self._made}"))

    def _format(self, moment: datetime) -> str:
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _copy(self, document: Document) -> Document:
        return copy_stored(document)  # type: ignore[no-any-return]


def _update_metadata(fields: Document, document: Document) -> None:
    document["metadata"].update(fields)
