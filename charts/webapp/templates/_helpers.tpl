{{/*
Name of all objects: <release>-<chart>, or the release's name alone if the chart's is part of it. A Service name must be
a DNS label, so dots, which a release name may have, become dashes.
*/}}
{{- define "webapp.fullname" -}}
{{- $default := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- .Values.fullnameOverride | default $default | replace "." "-" | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/*
Labels that find the Pods. A Deployment's selector can never be changed, so nothing here may depend on values or on a version.
*/}}
{{- define "webapp.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "webapp.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "webapp.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/*
A map as YAML of texts, without the entries that are null. Prints nothing for an empty map. A whole number from a values
file is a float here, and would print as 1.34217728e+08.
*/}}
{{- define "webapp.map" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $key | quote }}: {{ ternary (int64 $value) $value (kindIs "float64" $value) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels of the Pods. The selector's labels win over `podLabels`. */}}
{{- define "webapp.podLabels" -}}
{{- $selector := include "webapp.selectorLabels" . | fromYaml -}}
{{- include "webapp.map" (merge $selector (.Values.podLabels | default dict)) | trim -}}
{{- end }}

{{/* Image reference; the tag falls back to the chart's appVersion. */}}
{{- define "webapp.image" -}}
{{- $repository := required "image.repository must not be empty" .Values.image.repository -}}
{{- with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Name of the Pods' ServiceAccount. */}}
{{- define "webapp.serviceAccountName" -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- $account.name | default (ternary (include "webapp.fullname" .) "default" ($account.create | default false)) -}}
{{- end }}

{{/* Container resources, without the amounts that are null. */}}
{{- define "webapp.resources" -}}
{{- range $kind, $amounts := .Values.resources }}
{{- with include "webapp.map" $amounts | trim }}
{{ $kind }}:
  {{- nindent 2 . }}
{{- end }}
{{- end }}
{{- end }}
