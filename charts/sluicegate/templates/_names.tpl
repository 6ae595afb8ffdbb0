{{- define "sluicegate.labels" -}}
app.kubernetes.io/name: sluicegate-operator
app.kubernetes.io/part-of: sluicegate
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Of the pods: never changed, and what NetworkPolicies of clusters know the operator by. */}}
{{- define "sluicegate.selector" -}}
app.kubernetes.io/name: sluicegate-operator
{{- end }}

{{- define "sluicegate.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ include "sluicegate.tag" $ }}{{ end }}
{{- end }}
{{- end }}

{{- define "sluicegate.tag" -}}
{{- .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "sluicegate.landingImage" -}}
{{- .Values.brokers.landingImage | default (printf "%s:%s-landing" .Values.image.repository (include "sluicegate.tag" .)) }}
{{- end }}

{{- define "sluicegate.pipelineImage" -}}
{{- .Values.auditPipelines.image | default (printf "%s-audit:%s" .Values.image.repository (include "sluicegate.tag" .)) }}
{{- end }}

{{- /* Where the clusters are that it watches, and its Lease: empty for every namespace. */}}
{{- define "sluicegate.watched" -}}
{{- if .Values.watch.ownNamespace }}{{ .Release.Namespace }}{{ else }}{{ .Values.watch.namespace }}{{ end }}
{{- end }}

{{- define "sluicegate.account" -}}
- kind: ServiceAccount
  name: {{ .Values.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Of the webhook. */}}
{{- define "sluicegate.admission" -}}
sluicegate-operator-admission
{{- end }}

{{- /* With its certificate. Each maker has a Secret of its own: Helm takes over none that others have made. */}}
{{- define "sluicegate.admissionSecret" -}}
{{- include "sluicegate.admission" . }}{{ if .Values.admission.certManager.enabled }}-tls{{ end }}
{{- end }}

{{- /* It is of the whole cluster, as the role of nodes below. */}}
{{- define "sluicegate.admissionConfiguration" -}}
{{- if include "sluicegate.watched" . }}{{ .Release.Namespace }}-{{ end }}{{ include "sluicegate.admission" . }}
{{- end }}

{{- /* It is of the whole cluster, and there may be an operator for each of several namespaces. */}}
{{- define "sluicegate.nodesRole" -}}
{{- if include "sluicegate.watched" . }}{{ .Release.Namespace }}-sluicegate-operator-nodes{{ else }}sluicegate-operator-nodes{{ end }}
{{- end }}
