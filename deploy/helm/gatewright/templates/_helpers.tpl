{{- define "gatewright.name" -}}
{{- .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Release and chart name, or the release name alone if it contains the chart name. Truncated so that suffixes fit. */}}
{{- define "gatewright.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gatewright.selector" -}}
app.kubernetes.io/name: {{ include "gatewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gatewright.labels" -}}
{{ include "gatewright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gatewright
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gatewright.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "gatewright.natsImage" -}}
{{- with .Values.nats.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gatewright.natsUrl" -}}
{{- if .Values.nats.enabled -}}
nats://{{ include "gatewright.fullname" . }}-nats:4222
{{- else -}}
{{- required "nats.url is empty and nats.enabled is false: set nats.url to the URL of your NATS server" .Values.nats.url -}}
{{- end -}}
{{- end -}}

{{/* Number of replicas of each stream. */}}
{{- define "gatewright.streamReplicas" -}}
{{- if .Values.nats.enabled -}}{{ min 3 (int .Values.nats.replicas) }}{{- end -}}
{{- end -}}

{{/* The distinct names of all pools. */}}
{{- define "gatewright.pools" -}}
{{- $names := list -}}
{{- range $role, $values := .Values.roles -}}
{{- range $pool, $_ := $values.pools -}}{{- $names = append $names $pool -}}{{- end -}}
{{- end -}}
{{- join "," ($names | uniq | sortAlpha) -}}
{{- end -}}

{{/* Security context of every container: no capabilities, no privilege escalation, a read-only root file system. */}}
{{- define "gatewright.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "gatewright.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- end -}}

{{/* The service account of a pod. Each component that may use an object store has its own, for workload identity.
     Call with (dict "root" $ "component" NAME). */}}
{{- define "gatewright.account" -}}
{{- $full := include "gatewright.fullname" .root -}}
{{- ternary (printf "%s-%s" $full .component) $full (has .component (list "gatekeeper" "retention" "branches")) -}}
{{- end -}}

{{/* Scheduling of a pod. Call with (dict "root" $ "own" VALUES "labels" DICT "spread" BOOL). VALUES override .Values.scheduling;
     `labels` select the pods of a constraint; `spread` prefers different nodes by default. */}}
{{- define "gatewright.scheduling" -}}
{{- $own := .own | default dict -}}
{{- $all := .root.Values.scheduling -}}
{{- $labels := merge (dict) (.labels | default dict) (fromYaml (include "gatewright.selector" .root)) -}}
{{- with $own.priorityClassName | default $all.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $own.nodeSelector | default $all.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations | default $all.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.topologySpreadConstraints | default $all.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{- toYaml (hasKey . "labelSelector" | ternary . (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $labels)))) | nindent 4 }}
{{- end }}
{{- end }}
{{- with $own.affinity | default $all.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- else }}
{{- if .spread }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- toYaml $labels | nindent 14 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A checksum of the policies and prompts, so that an upgrade replaces the pods that read them. Tools that only render templates
     cannot look up ConfigMaps: with them, change `policies.version`. */}}
{{- define "gatewright.policiesChecksum" -}}
{{- $given := dict "policies" .Values.policies "prompts" .Values.prompts -}}
{{- range $name := list .Values.policies.configMap .Values.policies.organisation.configMap .Values.prompts.configMap -}}
{{- if $name -}}
{{- $found := lookup "v1" "ConfigMap" $.Release.Namespace $name -}}
{{- $given = set $given (printf "ConfigMap %s" $name) (dict "data" ($found.data | default dict) "binaryData" ($found.binaryData | default dict)) -}}
{{- end -}}
{{- end -}}
{{- toJson $given | sha256sum -}}
{{- end -}}

{{/* 90 % of a memory quantity in bytes, for GOMEMLIMIT: Go collects garbage more often near this limit. */}}
{{- define "gatewright.goMemoryLimit" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $quantity := toString . -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $quantity -}}
{{- $unit := get $units (trimPrefix $number $quantity) | required (printf "nats.resources.limits.memory: %s is not a memory quantity: use bytes or a unit of Ki, Mi, Gi, Ti, k, M, G, T" $quantity) -}}
{{- mulf (float64 $number) $unit 0.9 | int64 -}}
{{- end -}}

{{/* Environment variables of a process that connects to the bus. Call with (dict "root" $ "identity" NAME). */}}
{{- define "gatewright.busEnvironment" -}}
- {name: GATEWRIGHT_NATS_URL, value: {{ include "gatewright.natsUrl" .root | quote }}}
- {name: GATEWRIGHT_NATS_SEED, value: /etc/gatewright/identity/{{ .identity }}.{{ ternary "creds" "nk" .root.Values.identities.operatorMode }}}
{{- if gt (int .root.Values.nats.streams.ledgerPartitions) 1 }}
- {name: GATEWRIGHT_LEDGER_PARTITIONS, value: {{ .root.Values.nats.streams.ledgerPartitions | quote }}}
{{- end }}
{{- if .root.Values.nats.caSecret }}
- {name: GATEWRIGHT_NATS_CA, value: /etc/gatewright/nats-ca/ca.crt}
{{- end }}
{{- end -}}

{{- define "gatewright.busMounts" -}}
- {name: identity, mountPath: /etc/gatewright/identity, readOnly: true}
{{- if .root.Values.nats.caSecret }}
- {name: nats-ca, mountPath: /etc/gatewright/nats-ca, readOnly: true}
{{- end }}
{{- end -}}

{{/* Each identity has its own Secret, so a compromised pod can use only its own identity. */}}
{{- define "gatewright.busVolumes" -}}
- name: identity
  secret:
    secretName: {{ include "gatewright.fullname" .root }}-identity-{{ .identity }}
    defaultMode: 0440
{{- if .root.Values.nats.caSecret }}
- name: nats-ca
  secret: {secretName: {{ .root.Values.nats.caSecret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{/* The standard identities (`STANDING` of gatewright.bus.identities) and those of named publishers. */}}
{{- define "gatewright.identities" -}}
{{- $names := list "pm" "techlead" "worker" "reviewer" "testrunner" "gatekeeper" "publisher" "watcher" "observer" "approver" "operator" "provisioner" "puller" -}}
{{- range .Values.identities.publishers -}}{{- $names = append $names (printf "publisher-%s" .) -}}{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* The claim with the environments of the puller. */}}
{{- define "gatewright.environments" -}}
{{- .Values.puller.environments.existingClaim | default (printf "%s-environments" (include "gatewright.fullname" .)) -}}
{{- end -}}

{{/* A map as NAME=VALUE words, separated by spaces. */}}
{{- define "gatewright.streamWords" -}}
{{- $words := list -}}
{{- range $name, $value := . -}}{{- $words = append $words (printf "%s=%v" $name $value) -}}{{- end -}}
{{- join " " $words -}}
{{- end -}}
