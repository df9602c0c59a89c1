{{/* What Pod Security "restricted" asks for. */}}
{{- define "goodput.restrictedPod" -}}
runAsNonRoot: true
{{- if not .Values.openshift.enabled }}{{/* OpenShift chooses the user itself. */}}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "goodput.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
