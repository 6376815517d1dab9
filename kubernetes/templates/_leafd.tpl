{{/* Shared parts. A parent chart includes the sidecar with
     {{ include "leafd.sidecar" .Subcharts.leafd }} and {{ include "leafd.volumes" .Subcharts.leafd }}. */}}

{{/* The name of all objects of a release: leafd, unless the release has another name. */}}
{{- define "leafd.name" -}}
{{- if contains "leafd" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-leafd" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* The labels that select the release's pods. */}}
{{- define "leafd.selector" -}}
app.kubernetes.io/name: leafd
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "leafd.labels" -}}
{{ include "leafd.selector" . }}
app.kubernetes.io/component: id-generator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* A manifest's container with the chart's values, as YAML: (list CONTEXT CONTAINER). */}}
{{- define "leafd.filled" -}}
{{- $root := index . 0 }}{{ $container := index . 1 }}
{{- $values := $root.Values }}
{{- $_ := set $container "image" (printf "%s:%s" $values.image.repository ($values.image.tag | default $root.Chart.AppVersion)) }}
{{- if $values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" $values.image.pullPolicy }}{{ end }}
{{- $_ := set $container "resources" $values.resources }}
{{- if $values.metrics.enabled }}
{{- $_ := set $container "args" (concat $container.args (list "--set" (printf "http=0.0.0.0:%d" (int $values.metrics.port)))) }}
{{- $_ := set $container "ports" (list (dict "name" "metrics" "containerPort" (int $values.metrics.port))) }}
{{- end }}
{{- toYaml $container }}
{{- end }}

{{/* A manifest's volumes, with this release's configuration and password, as YAML: (list CONTEXT VOLUMES). */}}
{{- define "leafd.renamed" -}}
{{- $root := index . 0 }}
{{- $volumes := list }}
{{- range index . 1 }}
{{- $volume := . }}
{{- if eq .name "configuration" }}{{ $_ := set $volume.configMap "name" (include "leafd.name" $root) }}{{ end }}
{{- if eq .name "password" }}
{{- $secret := $root.Values.store.passwordSecret }}
{{- $_ := set $volume.secret "secretName" $secret.name }}
{{- $items := list (dict "key" $secret.key "path" "store_password") }}
{{- with $root.Values.publicIds.secretKey }}{{ $items = append $items (dict "key" . "path" "mask_keys") }}{{ end }}
{{- $_ := set $volume.secret "items" $items }}
{{- end }}
{{- $volumes = append $volumes $volume }}
{{- end }}
{{- toYaml $volumes }}
{{- end }}

{{/* The container of sidecar.yaml, for initContainers. */}}
{{- define "leafd.sidecar" -}}
{{- $pod := .Files.Get "sidecar.yaml" | fromYaml }}
{{- include "leafd.filled" (list . (index $pod.spec.initContainers 0)) }}
{{- end }}

{{/* Its volumes. The application's container mounts the one called socket. */}}
{{- define "leafd.volumes" -}}
{{- $pod := .Files.Get "sidecar.yaml" | fromYaml }}
{{- include "leafd.renamed" (list . $pod.spec.volumes) }}
{{- end }}

{{/* The pod's securityContext. Its group lets the application connect to the socket. */}}
{{- define "leafd.podSecurityContext" -}}
{{- $pod := .Files.Get "sidecar.yaml" | fromYaml }}
{{- toYaml $pod.spec.securityContext }}
{{- end }}

{{/* The annotations that make Prometheus scrape the pod. */}}
{{- define "leafd.scraped" -}}
{{- if and .Values.metrics.enabled .Values.metrics.annotations -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.metrics.port | quote }}
prometheus.io/path: /metrics
{{- end }}
{{- end }}
