{{/* What values.schema.json cannot say. Each refusal says what would be right; all of them are told at once. */}}
{{- define "raftsched.checks" -}}
{{- $wrong := list -}}
{{- $name := include "raftsched.name" . -}}
{{- $voters := .Values.voters -}}
{{- if not .Values.image.repository -}}
{{- $wrong = append $wrong "image.repository is missing: build an image and put it in your registry (docs/containers.md), then --set image.repository=HOST/raftsched" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- $wrong = append $wrong (printf "the name %q of the objects is no name of a service: take a release name of small letters, digits and hyphens that begins with a letter, or set fullnameOverride" $name) -}}
{{- end -}}
{{- if gt (len $name) 45 -}}
{{- $wrong = append $wrong (printf "the name %q has %d characters, and names of pods and services made of it would have more than Kubernetes takes: at most 45; take a shorter release name, or set fullnameOverride" $name (len $name)) -}}
{{- end -}}
{{- if lt (int $voters.replicas) (int $voters.founders) -}}
{{- $wrong = append $wrong (printf "voters.replicas is %d and voters.founders is %d: for a new cluster set both to %d; in one that there is, remove the members first (raftsched cluster members remove), and then set both" (int $voters.replicas) (int $voters.founders) (int $voters.replicas)) -}}
{{- end -}}
{{- $wrong = concat $wrong (include "raftsched.check-image" (list "image" .Values.image) | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "raftsched.check-env" (list "voters" $voters) | fromJsonArray) -}}
{{- range $pool, $_ := .Values.workers -}}
{{- $worker := include "raftsched.pool" (list $ $pool) | fromJson -}}
{{- $at := printf "workers.%s" $pool -}}
{{- $called := include "raftsched.worker" (list $ $pool) -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $pool) -}}
{{- $wrong = append $wrong (printf "%s: a pool's name has small letters, digits and hyphens only, for its Deployment has it" $at) -}}
{{- end -}}
{{- if gt (len $called) 54 -}}
{{- $wrong = append $wrong (printf "%s: the name %q has more than the 54 characters that Kubernetes and KEDA take: take a shorter name for the pool" $at $called) -}}
{{- end -}}
{{- if and $worker.image (not $worker.image.repository) -}}
{{- $wrong = append $wrong (printf "%s.image has no repository: leave it out for the image of the voters, or name all of it" $at) -}}
{{- end -}}
{{- $wrong = concat $wrong (include "raftsched.check-image" (list (printf "%s.image" $at) $worker.image) | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "raftsched.check-env" (list $at $worker) | fromJsonArray) -}}
{{- with $worker.autoscaling -}}
{{- if .enabled -}}
{{- if not .prometheus -}}
{{- $wrong = append $wrong (printf "%s.autoscaling.prometheus is missing: the URL of the Prometheus that reads the nodes' metrics" $at) -}}
{{- end -}}
{{- if not $worker.settings.queues -}}
{{- $wrong = append $wrong (printf "%s.settings.queues is missing: KEDA counts the runs that wait in the pool's queues" $at) -}}
{{- end -}}
{{- if gt (int .min) (int .max) -}}
{{- $wrong = append $wrong (printf "%s.autoscaling: min is %d and max is %d" $at (int .min) (int .max)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- range $key := list "host" "tlsSecret" -}}
{{- if not (get $.Values.ingress $key) -}}
{{- $wrong = append $wrong (printf "ingress.%s is missing: tokens do not travel in clear, so an Ingress has the name that users call and the secret with its certificate" $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $wrong = concat $wrong (include "raftsched.check-living" . | fromJsonArray) -}}
{{- if $wrong -}}
{{- fail (printf "\n\n- %s\n" (join "\n- " $wrong)) -}}
{{- end -}}
{{- end }}

{{/* (list WHERE IMAGE) */}}
{{- define "raftsched.check-image" -}}
{{- $wrong := list -}}
{{- $image := index . 1 -}}
{{- if and (eq (get $image "tag" | default "") "latest") (not $image.digest) -}}
{{- $wrong = append $wrong (printf "%s.tag is latest: a pod that starts again would bring another version by itself; name a version, or the digest" (index . 0)) -}}
{{- end -}}
{{ toJson $wrong }}
{{- end }}

{{/* (list WHERE VALUES) */}}
{{- define "raftsched.check-env" -}}
{{- $wrong := list -}}
{{- $at := index . 0 -}}
{{- range (index . 1).env -}}
{{- if hasPrefix "RAFTSCHED_" .name -}}
{{- $wrong = append $wrong (printf "%s.env: %s is a setting: write it into %s.settings, or leave it to the chart" $at .name $at) -}}
{{- end -}}
{{- if and (hasKey . "value") (regexMatch "(?i)(secret|password|passwd|token|private_?key|access_?key$|api_?key)" .name) -}}
{{- $wrong = append $wrong (printf "%s.env: %s looks like a secret, and values of a release can be read by many: put it into a Secret, and take it with valueFrom" $at .name) -}}
{{- end -}}
{{- end -}}
{{ toJson $wrong }}
{{- end }}

{{/* What an upgrade would do to the StatefulSet that there is. `helm template` does not see it. */}}
{{- define "raftsched.check-living" -}}
{{- $wrong := list -}}
{{- $name := include "raftsched.name" . -}}
{{- $voters := .Values.voters -}}
{{- $living := lookup "apps/v1" "StatefulSet" .Release.Namespace $name -}}
{{- if $living -}}
{{- $pods := int $living.spec.replicas -}}
{{- if and (lt (int $voters.replicas) $pods) (not $voters.shrink) -}}
{{- $wrong = append $wrong (printf "there are %d voters, and voters.replicas is %d: pods that go while they are members take the majority with them. Remove the members first (raftsched cluster members remove %s-%d), then set voters.shrink=true" $pods (int $voters.replicas) $name (sub $pods 1)) -}}
{{- end -}}
{{- $founders := index ($living.metadata.annotations | default dict) "raftsched/founders" | default "" -}}
{{- if and $founders (gt (int $voters.founders) (int $founders)) -}}
{{- $wrong = append $wrong (printf "voters.founders is %d, and this cluster was formed by %s: leave it at %s; further pods join" (int $voters.founders) $founders $founders) -}}
{{- end -}}
{{- range $living.spec.volumeClaimTemplates -}}
{{- if eq .metadata.name "data" -}}
{{- $size := .spec.resources.requests.storage -}}
{{- if ne (include "raftsched.bytes" $size) (include "raftsched.bytes" $voters.storage.size) -}}
{{- $wrong = append $wrong (printf "the volumes have %s, and voters.storage.size is %s: Kubernetes does not change it in a StatefulSet; docs/kubernetes.md says how volumes grow" $size $voters.storage.size) -}}
{{- end -}}
{{- $class := .spec.storageClassName | default "" -}}
{{- if and $voters.storage.className (ne $class $voters.storage.className) -}}
{{- $wrong = append $wrong (printf "the volumes are of the class %q, and voters.storage.className is %q: Kubernetes does not change it; move one node after the other to a new volume (docs/kubernetes.md, a lost volume)" $class $voters.storage.className) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toJson $wrong }}
{{- end }}
