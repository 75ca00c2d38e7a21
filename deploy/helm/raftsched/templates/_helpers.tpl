{{/* What the names of all objects begin with. */}}
{{- define "raftsched.name" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains "raftsched" .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ .Release.Name }}-raftsched
{{- end }}
{{- end }}

{{/* Labels by which objects find pods: (list $ COMPONENT). Kubernetes does not change them later. */}}
{{- define "raftsched.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: raftsched
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
{{- end }}

{{/* Labels of an object: (list $ COMPONENT). */}}
{{- define "raftsched.labels" -}}
{{- $ := index . 0 -}}
{{ include "raftsched.selector" . }}
app.kubernetes.io/managed-by: {{ $.Release.Service }}
app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* An image, by its digest where there is one: (list $ IMAGE). */}}
{{- define "raftsched.image" -}}
{{- $ := index . 0 -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* A value as text: Helm reads numbers as floats. */}}
{{- define "raftsched.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{ int64 . }}
{{- else -}}
{{ . }}
{{- end }}
{{- end }}

{{/* Variables of settings, each as a line of `env`. */}}
{{- define "raftsched.settings" -}}
{{- range $name, $value := . }}
- {name: RAFTSCHED_{{ upper $name }}, value: {{ include "raftsched.text" $value | quote }}}
{{- end }}
{{- end }}

{{/* Seconds of a duration such as 90s, 5m or 1h. */}}
{{- define "raftsched.seconds" -}}
{{- $text := include "raftsched.text" . -}}
{{- $number := regexFind "^[0-9]+" $text | int -}}
{{- $unit := regexFind "[a-z]+$" $text | default "s" -}}
{{ mul $number (get (dict "s" 1 "m" 60 "h" 3600 "ms" 0) $unit) }}
{{- end }}

{{/* Bytes of a size such as 10Gi: Kubernetes writes 1024Gi as 1Ti. */}}
{{- define "raftsched.bytes" -}}
{{- $number := regexFind "^[0-9]+" . | int64 -}}
{{- $unit := regexFind "[A-Za-z]*$" . -}}
{{- range until (int (get (dict "k" 1 "M" 2 "G" 3 "T" 4 "Ki" 1 "Mi" 2 "Gi" 3 "Ti" 4) $unit)) -}}
{{- $number = mul $number (ternary 1024 1000 (hasSuffix "i" $unit)) -}}
{{- end -}}
{{ $number }}
{{- end }}

{{/* The domain of the nodes, below which each has a name. */}}
{{- define "raftsched.domain" -}}
{{ include "raftsched.name" . }}-nodes.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Names by which users call the API. */}}
{{- define "raftsched.names" -}}
{{- $name := include "raftsched.name" . -}}
{{- $service := printf "%s.%s" $name .Release.Namespace -}}
{{- $found := list $name $service (printf "%s.svc" $service) (printf "%s.svc.%s" $service .Values.clusterDomain) -}}
{{- $found = concat $found .Values.names -}}
{{- if .Values.ingress.enabled -}}
{{- $found = append $found .Values.ingress.host -}}
{{- end -}}
{{ uniq $found | join "," }}
{{- end }}

{{- define "raftsched.job" -}}
{{ .Values.metrics.job | default (include "raftsched.name" .) }}
{{- end }}

{{- define "raftsched.tls" -}}
{{ .Values.secrets.tls | default (printf "%s-tls" (include "raftsched.name" .)) }}
{{- end }}

{{/* The name of a pool's Deployment: (list $ POOL). */}}
{{- define "raftsched.worker" -}}
{{- $name := include "raftsched.name" (index . 0) -}}
{{- if eq (index . 1) "default" -}}
{{ $name }}-worker
{{- else -}}
{{ $name }}-worker-{{ index . 1 }}
{{- end }}
{{- end }}

{{/* A pool with its defaults, as JSON: (list $ POOL). */}}
{{- define "raftsched.pool" -}}
{{- $ := index . 0 -}}
{{ mergeOverwrite (deepCopy $.Values.workerDefaults) (deepCopy (index $.Values.workers (index . 1) | default dict)) | toJson }}
{{- end }}

{{/* What voters and workers have in common. */}}
{{- define "raftsched.account" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- if .Values.serviceAccount.create }}
serviceAccountName: {{ .Values.serviceAccount.name | default (include "raftsched.name" .) | quote }}
{{- else if .Values.serviceAccount.name }}
serviceAccountName: {{ .Values.serviceAccount.name | quote }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "raftsched.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "raftsched.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "raftsched.pod-security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}
