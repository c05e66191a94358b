{{- define "baobab.name" -}}
{{- printf "%s" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "baobab.selector" -}}
app.kubernetes.io/name: baobab
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "baobab.labels" -}}
{{ include "baobab.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* Pods keep their disk, so that bills which wait there for PostgreSQL outlive them. */ -}}
{{- define "baobab.kind" -}}
{{- ternary "StatefulSet" "Deployment" .Values.data.persistent -}}
{{- end -}}

{{- /* baobab.yaml: `config`, and what follows from other values where it does not say so itself. */ -}}
{{- define "baobab.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- /* Until no load balancer sends to a pod that stops. */ -}}
{{- $config = mergeOverwrite (dict "http" (dict "drain_delay_ms" 5000)) $config -}}
{{- if and (not .Values.data.persistent) (not (hasKey $config "store_journal")) -}}
{{- $_ := set $config "store_journal" false -}}
{{- end -}}
{{- if .Values.catalog -}}
{{- $_ := set $config "catalog_dir" "/etc/baobab-catalog" -}}
{{- end -}}
{{- with .Values.ingress -}}
{{- if .enabled -}}
{{- $config = mergeOverwrite (dict "http" (dict "trusted_proxies" .trustedProxies)) $config -}}
{{- if and .tlsSecret (not $config.public_url) -}}
{{- $_ := set $config "public_url" (printf "https://%s" .host) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* A variable whose value is a key of the secret, if the secret has it. */ -}}
{{- define "baobab.secretVariable" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
      optional: true
{{- end -}}

{{- /* Secrets are not part of the chart: what they contain is known only to an installation that may read them. */ -}}
{{- define "baobab.secrets" -}}
{{- range $name := prepend (values .Values.secretFiles | sortAlpha) .Values.existingSecret | compact | uniq -}}
{{- with lookup "v1" "Secret" $.Release.Namespace $name }}{{ $name }}: {{ toJson .data }}
{{ end -}}
{{- end -}}
{{- end -}}

{{- define "baobab.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  scheme: {{ ternary "HTTPS" "HTTP" (hasKey .config "tls") }}
{{ toYaml .probe }}
{{- end -}}
