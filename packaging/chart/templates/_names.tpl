{{/* Labels of the portal's and the TURN server's objects. */}}
{{- define "openuvr.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: openuvr
{{- end }}

{{/* Pod Security level of the namespace: Pods with ports of their node are only permitted at "privileged". */}}
{{- define "openuvr.level" -}}
{{- $host := or (eq .Values.sessions.network "host") .Values.sessions.hostPorts }}
{{- $port := and .Values.turn.deploy (eq .Values.turn.expose "HostPort") }}
{{- if or $host $port }}privileged{{ else }}restricted{{ end }}
{{- end }}

{{/* Whether the database is an SQLite file. */}}
{{- define "openuvr.sqlite" -}}
{{- if not .Values.portal.database.secret }}yes{{ end }}
{{- end }}

{{/* A list of strings as TOML, which has the same strings as JSON, in one line. */}}
{{- define "openuvr.list" -}}
{{- $all := list }}
{{- range . }}{{ $all = append $all (toRawJson .) }}{{ end -}}
[{{ join ", " $all }}]
{{- end }}

{{/* The settings of a container that the Pod Security Standard "restricted" requires, and a read-only root. */}}
{{- define "openuvr.container" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Name resolution, for network policies. */}}
{{- define "openuvr.names" -}}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: TCP, port: 53 }
{{- end }}

{{/* Combinations of values that do not work. */}}
{{- define "openuvr.check" -}}
{{- if and (gt (int .Values.portal.replicas) 1) (include "openuvr.sqlite" .) }}
{{- fail "portal.replicas > 1: replicas cannot share an SQLite file; set portal.database.secret" }}
{{- end }}
{{- if and (include "openuvr.sqlite" .) (not .Values.portal.storage.size) }}
{{- fail "portal.storage.size is empty: set the size of the database's volume, or portal.database.secret" }}
{{- end }}
{{- if and .Values.sessions.hostPorts (eq .Values.sessions.network "host") }}
{{- fail "sessions.hostPorts: sessions in the network of their node use its ports anyway; set sessions.network=pod" }}
{{- end }}
{{- if and .Values.turn.servers (not .Values.turn.secret) }}
{{- fail "turn.secret is empty: set the name of the Secret that portal and TURN server share" }}
{{- end }}
{{- if .Values.turn.deploy }}
{{- if not .Values.turn.image }}{{ fail "turn.deploy: turn.image is empty: set an image with coturn" }}{{ end }}
{{- if not .Values.turn.peers }}
{{- fail "turn.deploy: turn.peers is empty: set the address range of the cluster's Pods, such as 10.244.0.0-10.244.255.255" }}
{{- end }}
{{- end }}
{{- end }}
