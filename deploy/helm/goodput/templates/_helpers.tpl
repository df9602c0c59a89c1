{{- define "goodput.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What objects are selected by: these labels never change between releases. Takes the context and the component. */}}
{{- define "goodput.selector" -}}
app.kubernetes.io/name: {{ default .top.Chart.Name .top.Values.nameOverride }}
app.kubernetes.io/instance: {{ .top.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "goodput.labels" -}}
{{ include "goodput.selector" . }}
app.kubernetes.io/version: {{ .top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .top.Chart.Name .top.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "goodput.image" -}}
{{- $registry := default .image.registry .top.Values.global.imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .top.Chart.AppVersion .image.tag }}{{ end }}
{{- end -}}

{{- define "goodput.names" -}}
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end -}}

{{/* "true" where the objects of the Prometheus operator are wanted. Takes the context and the setting. */}}
{{- define "goodput.operator" -}}
{{- if eq (toString .enabled) "auto" -}}
{{- if .top.Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }}true{{ end -}}
{{- else if .enabled }}true{{ end -}}
{{- end -}}

{{/* 85 % of the claim, in bytes: the rest is for what is not yet in segments, and for merging them. */}}
{{- define "goodput.retentionBytes" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $size := toString .Values.analyzer.persistence.size -}}
{{- $number := regexFind "^[0-9]+" $size -}}
{{- div (mul (int64 $number) (int64 (get $units (trimPrefix $number $size))) 85) 100 -}}
{{- end -}}

{{/* The analyzer's configuration file. */}}
{{- define "goodput.analyzerConfig" -}}
{{- $config := deepCopy .Values.analyzer.config -}}
{{- if and .Values.analyzer.persistence.enabled (not (hasKey (default dict $config.store) "retention_bytes")) -}}
{{- $bytes := include "goodput.retentionBytes" . | int64 -}}
{{- $_ := set $config "store" (merge (dict "retention_bytes" $bytes) (default dict $config.store)) -}}
{{- end -}}
{{- if eq .Values.analyzer.source "scrape" -}}
{{- $dns := dict "names" (list (printf "%s-exporter-pods.%s.svc" (include "goodput.fullname" .) .Release.Namespace)) "type" "A" "port" 9400 -}}
{{- $job := dict "name" "goodput-exporter" "instance_from" "nodename" "dns_sd_configs" (list $dns) -}}
{{- $_ := set $config "scrape" (prepend (default list $config.scrape) (merge (deepCopy .Values.analyzer.scrape) $job)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
