{{- define "goodput.probe" -}}
path: {{ .path }}
port: metrics
scheme: {{ .probes.scheme }}
{{- with .probes.httpHeaders }}
httpHeaders: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{/* Host paths of exporter.hostMounts minimal: what is read of a host whose names come from a kubelet. */}}
{{- define "goodput.hostPaths" -}}
proc: /proc
sys: /sys
hostname: /etc/hostname
pod-resources: /var/lib/kubelet/pod-resources
container-logs: /var/log/containers
{{- end -}}

{{- define "goodput.exporterMounts" -}}
{{- $e := .Values.exporter -}}
{{- if eq $e.hostMounts "full" }}
- {name: host, mountPath: /host, readOnly: true, mountPropagation: HostToContainer}
{{- else }}
{{- range $name, $path := include "goodput.hostPaths" . | fromYaml }}
- {name: {{ $name }}, mountPath: /host{{ $path }}, readOnly: true}
{{- end }}
{{- end }}
{{- if eq $e.gpuAccess "volumeMounts" }}
- {name: all-gpus, mountPath: /var/run/nvidia-container-devices/all}
{{- end }}
{{- if $e.config }}
- {name: config, mountPath: /etc/goodput, readOnly: true}
{{- end }}
{{- if $e.webConfigSecret }}
- {name: web, mountPath: /etc/goodput-web, readOnly: true}
{{- end }}
{{- end -}}

{{- define "goodput.exporterVolumes" -}}
{{- $e := .Values.exporter -}}
{{- if eq $e.hostMounts "full" }}
- {name: host, hostPath: {path: /}}
{{- else }}
{{- range $name, $path := include "goodput.hostPaths" . | fromYaml }}
- {name: {{ $name }}, hostPath: {path: {{ $path }}}}
{{- end }}
{{- end }}
{{- if eq $e.gpuAccess "volumeMounts" }}
- {name: all-gpus, hostPath: {path: /dev/null}}
{{- end }}
{{- if $e.config }}
- {name: config, configMap: {name: {{ include "goodput.fullname" . }}-exporter}}
{{- end }}
{{- if $e.webConfigSecret }}
- {name: web, secret: {secretName: {{ $e.webConfigSecret }}}}
{{- end }}
{{- end -}}
