{{- /* files/ are links to what kustomize installs: a rule, a definition, a policy has one home. */}}

{{- /* All objects of a file, with the release's labels. Takes root, file and, if any, annotations,
and the template of other labels. */}}
{{- define "et-operator.objects" -}}
{{- $labels := include (.labels | default "et-operator.labels") .root | fromYaml }}
{{- $metadata := dict "labels" $labels }}
{{- with .annotations }}{{ $metadata = set $metadata "annotations" . }}{{ end }}
{{- $account := printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "et-operator.account" .root) }}
{{- $text := .root.Files.Get .file | replace "system:serviceaccount:et-operator:et-operator" $account }}
{{- $scheduler := printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "et-scheduler.name" .root) }}
{{- $text = $text | replace "system:serviceaccount:et-operator:et-scheduler" $scheduler }}
{{- /* One release's policy must not take the place of another's. */}}
{{- $text = $text | replace "ame: et-operator-" (printf "ame: %s-" (include "et-operator.name" .root)) }}
{{- $text = $text | replace "ame: et-scheduler-" (printf "ame: %s-" (include "et-scheduler.name" .root)) }}
{{- range regexSplit "(?m)^---$" $text -1 }}
---
{{ mergeOverwrite (fromYaml .) (dict "metadata" $metadata) | toYaml }}
{{- end }}
{{- end }}

{{- /* The rules of the one object of this kind in rights.yaml, or another file. Takes root and kind. */}}
{{- define "et-operator.rules" -}}
{{- range regexSplit "(?m)^---$" (.root.Files.Get (.file | default "files/rights.yaml")) -1 }}
{{- $object := fromYaml . }}
{{- if eq $object.kind $.kind }}{{ toYaml $object.rules }}{{ end }}
{{- end }}
{{- end }}
