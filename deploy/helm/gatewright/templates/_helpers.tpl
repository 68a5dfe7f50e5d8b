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
