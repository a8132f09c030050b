{{- /* The name of what belongs to this release. */}}
{{- define "et-operator.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 56 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "et-operator.account" -}}
{{ .Values.serviceAccount.name | default (include "et-operator.name" .) }}
{{- end }}

{{- define "et-scheduler.name" -}}
{{- $name := include "et-operator.name" . -}}
{{- if contains "et-operator" $name -}}
{{ $name | replace "et-operator" "et-scheduler" }}
{{- else -}}
{{ $name | trunc 53 | trimSuffix "-" }}-scheduler
{{- end -}}
{{- end }}

{{- define "et-notices.name" -}}
{{- $name := include "et-operator.name" . -}}
{{- if contains "et-operator" $name -}}
{{ $name | replace "et-operator" "et-notices" }}
{{- else -}}
{{ $name | trunc 55 | trimSuffix "-" }}-notices
{{- end -}}
{{- end }}

{{- define "et-operator.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag }}{{ end }}
{{- end }}

{{- /* The same as in deploy/base, without the release: a selector cannot change, whichever form writes it.
There is one operator a namespace anyway: its lease has one name. */}}
{{- define "et-operator.selector" -}}
app.kubernetes.io/name: et-operator
{{- end }}

{{- define "et-scheduler.selector" -}}
app.kubernetes.io/name: et-scheduler
{{- end }}

{{- define "et-notices.selector" -}}
app.kubernetes.io/name: et-notices
{{- end }}

{{- /* What Helm's users expect on every object, and deploy/base does not have but for the first. */}}
{{- define "et-operator.labels" -}}
{{ include "et-operator.selector" . }}
{{ include "et-operator.release" . }}
{{- end }}

{{- define "et-scheduler.labels" -}}
{{ include "et-scheduler.selector" . }}
{{ include "et-operator.release" . }}
{{- end }}

{{- define "et-notices.labels" -}}
{{ include "et-notices.selector" . }}
{{ include "et-operator.release" . }}
{{- end }}

{{- define "et-operator.release" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
