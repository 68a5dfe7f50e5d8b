{{- define "gatewright.name" -}}
{{- .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Release and chart, or the release alone where it is called like the chart; short enough for what is put behind it. */}}
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
{{- required "nats.url: the URL of the NATS server, as nats.enabled is false" .Values.nats.url -}}
{{- end -}}
{{- end -}}

{{/* How many servers keep each stream. */}}
{{- define "gatewright.streamReplicas" -}}
{{- if .Values.nats.enabled -}}{{ min 3 (int .Values.nats.replicas) }}{{- end -}}
{{- end -}}

{{/* The names of all pools, each once. */}}
{{- define "gatewright.pools" -}}
{{- $names := list -}}
{{- range $role, $values := .Values.roles -}}
{{- range $pool, $_ := $values.pools -}}{{- $names = append $names $pool -}}{{- end -}}
{{- end -}}
{{- join "," ($names | uniq | sortAlpha) -}}
{{- end -}}

{{/* Walls of every container: no right, no way to get one, nothing to write but what is mounted. */}}
{{- define "gatewright.containerWalls" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "gatewright.podWalls" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
{{- end -}}

{{/* The account of a pod: those that may reach an object store have one each, for the cluster's workload identity. Called with (dict "root" $ "component" NAME). */}}
{{- define "gatewright.account" -}}
{{- $full := include "gatewright.fullname" .root -}}
{{- ternary (printf "%s-%s" $full .component) $full (has .component (list "gatekeeper" "retention" "branches")) -}}
{{- end -}}

{{/* Where a pod may run. Called with (dict "root" $ "own" VALUES "labels" DICT "spread" BOOL): a value of VALUES counts before the same
     one of .Values.scheduling; `labels` find the pods that a constraint counts; `spread` keeps them on different nodes by default. */}}
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

{{/* Changes with the policies and prompts that are given, so that an upgrade replaces the pods that read them. Tools that only render
     templates see no ConfigMap: there `policies.version` changes. */}}
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

{{/* Nine tenths of a quantity of memory, in bytes: where Go's collector begins to work harder. */}}
{{- define "gatewright.goMemoryLimit" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $quantity := toString . -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $quantity -}}
{{- $unit := get $units (trimPrefix $number $quantity) | required (printf "nats.resources.limits.memory: %s: a number of Ki, Mi, Gi, Ti, k, M, G, T or bytes" $quantity) -}}
{{- mulf (float64 $number) $unit 0.9 | int64 -}}
{{- end -}}

{{/* What a process that connects to the bus is told. Called with (dict "root" $ "identity" NAME). */}}
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

{{/* An identity is one Secret of its own: a pod that is taken over can speak as itself alone. */}}
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

{{/* The identities that every system has, and those of named publishers; the package's own list is `STANDING`. */}}
{{- define "gatewright.identities" -}}
{{- $names := list "pm" "techlead" "worker" "reviewer" "testrunner" "gatekeeper" "publisher" "watcher" "observer" "approver" "operator" "provisioner" -}}
{{- range .Values.identities.publishers -}}{{- $names = append $names (printf "publisher-%s" .) -}}{{- end -}}
{{- join " " $names -}}
{{- end -}}

{{/* NAME=VALUE of a table, separated by blanks. */}}
{{- define "gatewright.streamWords" -}}
{{- $words := list -}}
{{- range $name, $value := . -}}{{- $words = append $words (printf "%s=%v" $name $value) -}}{{- end -}}
{{- join " " $words -}}
{{- end -}}
