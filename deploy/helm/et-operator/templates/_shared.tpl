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
{{- $notices := include "et-notices.name" .root }}
{{- $text = $text | replace "system:serviceaccount:et-notices:et-notices" (printf "system:serviceaccount:%s:%s" $notices $notices) }}
{{- /* One release's policy must not take the place of another's. */}}
{{- $text = $text | replace "ame: et-operator-" (printf "ame: %s-" (include "et-operator.name" .root)) }}
{{- $text = $text | replace "ame: et-scheduler-" (printf "ame: %s-" (include "et-scheduler.name" .root)) }}
{{- $text = $text | replace "ame: et-notices-" (printf "ame: %s-" $notices) }}
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

{{- /* Of one of the two programs: more than one replica is on different nodes as far as possible, unless
its values say otherwise. Takes root, values, and the program. */}}
{{- define "et-operator.spread" -}}
{{- if not (kindIs "invalid" .values.topologySpreadConstraints) }}
{{- with .values.topologySpreadConstraints -}}
topologySpreadConstraints:
{{ toYaml . }}
{{- end }}
{{- else if gt (int .values.replicas) 1 -}}
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include (printf "%s.selector" .program) .root | nindent 6 }}
  # during an upgrade the old replicas do not count
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{- /* The same for a budget. Takes root, values, and the program. */}}
{{- define "et-operator.budget" -}}
{{- if gt (int .values.replicas) 1 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include (printf "%s.name" .program) .root }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include (printf "%s.labels" .program) .root | nindent 4 }}
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  # a replica that is not ready must not hold up the drain of its node
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include (printf "%s.selector" .program) .root | nindent 6 }}
{{- end }}
{{- end }}

{{- /* What the Prometheus operator needs to know of one of the two programs. Takes root and the program. */}}
{{- define "et-operator.monitored" }}
apiVersion: v1
kind: Service
metadata:
  name: {{ include (printf "%s.name" .program) .root }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include (printf "%s.labels" .program) .root | nindent 4 }}
spec:
  clusterIP: None
  # a replica that is not ready is the one whose metrics are wanted
  publishNotReadyAddresses: true
  selector:
    {{- include (printf "%s.selector" .program) .root | nindent 4 }}
  ports:
  - name: http
    port: 8080
    targetPort: http
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include (printf "%s.name" .program) .root }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include (printf "%s.labels" .program) .root | nindent 4 }}
    {{- with .root.Values.monitoring.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include (printf "%s.selector" .program) .root | nindent 6 }}
  endpoints:
  - port: http
    path: /metrics
    interval: {{ .root.Values.monitoring.serviceMonitor.interval }}
{{- end }}

{{- /* Of the pods of both programs; without the Prometheus operator they are found by these. */}}
{{- define "et-operator.annotations" -}}
{{- $annotations := dict }}
{{- if not .Values.monitoring.serviceMonitor.enabled }}
{{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" "8080" "prometheus.io/path" "/metrics" }}
{{- end }}
{{- with merge (dict) .Values.podAnnotations $annotations }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* The ConfigMap of notices; other rows are another object, so that the pods are started anew: they
read it once. */}}
{{- define "et-operator.notices" -}}
{{ include "et-operator.name" . }}-notices-{{ .Values.notices | toYaml | sha256sum | trunc 8 }}
{{- end }}
