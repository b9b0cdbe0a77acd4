{{/*
Name of all objects: <release>-<chart>, or the release's name alone if the chart's is part of it. At most 52 characters:
the StatefulSet controller adds a hash to it and puts the result into a label. A Service name must be a DNS label, so
dots, which a release name may have, become dashes.
*/}}
{{- define "memcached.fullname" -}}
{{- $default := ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) -}}
{{- .Values.fullnameOverride | default $default | replace "." "-" | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/*
Labels that find the Pods. A StatefulSet's selector can never be changed, so nothing here may depend on values or on a version.
*/}}
{{- define "memcached.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "memcached.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "memcached.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/*
A map as YAML of texts, without the entries that are null. Prints nothing for an empty map. A whole number from a values
file is a float here, and would print as 1.34217728e+08.
*/}}
{{- define "memcached.map" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $key | quote }}: {{ ternary (int64 $value) $value (kindIs "float64" $value) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels of the Pods. The selector's labels win over `podLabels`. */}}
{{- define "memcached.podLabels" -}}
{{- $selector := include "memcached.selectorLabels" . | fromYaml -}}
{{- include "memcached.map" (merge $selector (.Values.podLabels | default dict)) | trim -}}
{{- end }}

{{/* Image reference; the tag falls back to the chart's appVersion. */}}
{{- define "memcached.image" -}}
{{- $repository := required "image.repository must not be empty" .Values.image.repository -}}
{{- with .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/*
Container resources. memcached needs its cache and, measured in rounded-up figures, 32 MiB of its own plus 8 KiB for each
connection; the limit leaves another quarter of the cache for its index and fragmentation.
*/}}
{{- define "memcached.resources" -}}
{{- $cache := int64 .Values.memoryMegabytes -}}
{{- $own := add 32 (div (int64 .Values.maxConnections) 128) -}}
{{- $requests := dict "cpu" "50m" "memory" (printf "%dMi" (add $cache $own)) -}}
{{- $limits := dict "memory" (printf "%dMi" (add $cache $own (div $cache 4))) -}}
{{- range $kind, $amounts := dict "requests" $requests "limits" $limits }}
{{- range $name, $amount := index ($.Values.resources | default dict) $kind }}
{{- $_ := set $amounts $name $amount }}
{{- end }}
{{- with include "memcached.map" $amounts | trim }}
{{ $kind }}:
  {{- nindent 2 . }}
{{- end }}
{{- end }}
{{- end }}
