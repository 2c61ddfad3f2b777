"""The actuator SFTTrainer of ado. The program says what there is to measure, and measures it."""

import asyncio
import functools
import importlib.metadata
import logging

import ray
from ado.core.actuatorconfiguration.config import GenericActuatorParameters
from ado.modules.actuators.base import ActuatorBase
from ado.modules.actuators.catalog import ExperimentCatalog
from ado.schema.domain import PropertyDomain, VariableTypeEnum
from ado.schema.experiment import Experiment
from ado.schema.observed_property import ObservedPropertyValue
from ado.schema.property import AbstractPropertyDescriptor, ConstitutiveProperty, ConstitutivePropertyDescriptor
from ado.schema.property_value import ConstitutivePropertyValue
from ado.schema.request import MeasurementRequest, MeasurementRequestStateEnum
from ado.schema.result import InvalidMeasurementResult, ValidMeasurementResult

from ado_sftbench import program

# ado lists the values of a discrete domain. Of larger ones it knows the ends, and the program the rest.
LISTED_VALUES = 1_000_000
# ado's tables have columns in the order of these beginnings, and the program's report as well.
COLUMNS = ("f_", "is_valid", "dataset_tokens_per_second_per_gpu", "train_runtime", "dataset", "train", "cpu", "gpu")


def refuse_two_of_a_name():
    """ado would take either of them, without a word."""
    try:
        importlib.metadata.version("ado-sfttrainer")
    except importlib.metadata.PackageNotFoundError:
        return
    raise RuntimeError("ado-sfttrainer and ado-sftbench are both the actuator SFTTrainer; uninstall one of them")


refuse_two_of_a_name()
measure_on_node = ray.remote(max_retries=0)(program.measure)  # ado counts retries


class Parameters(GenericActuatorParameters):
    """Of the program, with ado's names. It refuses those that it does not know."""

    results: str = "~/.local/share/sftbench/results"  # folder of the results, which all nodes see
    options: list[str] = []  # of `sftbench sweep`, such as [--weights, random]


def domain_of(known):
    """A property's domain, as ado has it."""
    values = known.get("values", []) + ([None, "None"] if known["nullable"] else [])  # one and the same in ado
    if known["kind"] == "boolean":
        return PropertyDomain(variableType=VariableTypeEnum.BINARY_VARIABLE_TYPE)
    if known["kind"] == "string_list":
        return PropertyDomain()
    if known["kind"] == "string":
        kind = "OPEN_CATEGORICAL_VARIABLE_TYPE" if known["open"] else "CATEGORICAL_VARIABLE_TYPE"
        return PropertyDomain(values=values, variableType=VariableTypeEnum[kind])
    lower, upper, interval = (known["range"][name] for name in ("lower", "upper", "interval"))
    if known["kind"] != "integer" or upper - lower > LISTED_VALUES:
        return PropertyDomain(domainRange=[lower, upper], variableType=VariableTypeEnum.CONTINUOUS_VARIABLE_TYPE)
    return PropertyDomain(domainRange=[int(lower), int(upper)], interval=int(interval),
                          variableType=VariableTypeEnum.DISCRETE_VARIABLE_TYPE)


def column(measured):
    return next((k for k, begin in enumerate(COLUMNS) if measured.startswith(begin)), len(COLUMNS))


def experiment_of(known):
    """An experiment of the program, as ado has it."""
    measured = sorted((each["identifier"] for each in known["measured"]), key=column)

    def properties(required):
        return [ConstitutiveProperty(identifier=each["identifier"], propertyDomain=domain_of(each),
                                     metadata={"description": each["help"]})
                for each in known["properties"] if each["required"] == required]

    return Experiment(
        identifier=known["identifier"], actuatorIdentifier=known["actuator"],
        metadata={"description": known["summary"], "method": known["tuning"], "parameters": known["hardcoded"]},
        targetProperties=[AbstractPropertyDescriptor(identifier=each) for each in measured],
        requiredProperties=properties(True), optionalProperties=properties(False),
        defaultParameterization=[
            ConstitutivePropertyValue(property=ConstitutivePropertyDescriptor(identifier=each["identifier"]),
                                      value=each["default"])
            for each in known["properties"] if not each["required"]])


@functools.cache
def catalog_of_program():
    catalog = ExperimentCatalog(catalogIdentifier=SFTTrainer.identifier)
    try:
        for known in program.experiments():
            catalog.addExperiment(experiment_of(known))
    except program.ProgramError as error:
        logging.getLogger("actuator").critical("SFTTrainer has no experiments: %s", error)  # ado does not say why
        raise
    return catalog


def space_of(entity, reference, parameters):
    """The space of this one entity, from which the program makes the same identifiers as ado."""
    return {
        "experiments": [{
            "experimentIdentifier": reference.experimentIdentifier, "actuatorIdentifier": reference.actuatorIdentifier,
            "parameterization": [{"property": {"identifier": each.property.identifier}, "value": each.value}
                                 for each in reference.parameterization or []]}],
        "entitySpace": [{"identifier": each.property.identifier, "propertyDomain": {"values": [each.value]}}
                        for each in entity.constitutive_property_values],
        "actuatorConfiguration": {"parameters": parameters}}


def resources_for(values):
    """What Ray keeps for a measurement: as much as ado's actuator asks for. Where no node has the GPUs, none, so that
    the program says what is missing."""
    gpus = values["number_gpus"] // max(1, values["number_nodes"])
    if gpus > max((node["Resources"].get("GPU", 0) for node in ray.nodes() if node["Alive"]), default=0):
        gpus = 0
    model = values["gpu_model"]
    own = {model: gpus} if gpus and model in ray.cluster_resources() else {}
    return {"num_gpus": gpus, "num_cpus": 2 * gpus, "resources": own}


class SFTTrainer(ActuatorBase):
    """Fine-tuning, measured by the program sftbench."""

    identifier = "SFTTrainer"
    parameters_class = Parameters

    def __init__(self, queue, params=None):
        super().__init__(queue, params)
        self._parameters = self.validate_parameters(params)
        self._tasks = set()
        self._cores = asyncio.Lock()  # a measurement on CPUs has all of them

    @classmethod
    def validate_parameters(cls, parameters):
        # ado's own takes the fields of Parameters and drops the others.
        given = parameters.model_dump() if isinstance(parameters, GenericActuatorParameters) else parameters
        return cls.parameters_class.model_validate(given or {})

    @classmethod
    def catalog(cls, actuator_configuration=None):
        return catalog_of_program()

    async def submit(self, entities, experimentReference, requesterid, requestIndex):
        experiment = self.catalog().experimentForReference(experimentReference, resolve=True)
        requests = [MeasurementRequest(operation_id=requesterid, requestIndex=requestIndex, entities=[entity],
                                       experimentReference=experimentReference) for entity in entities]
        for request in requests:
            task = asyncio.create_task(self._answer(request, experiment))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return [request.requestid for request in requests]

    async def _answer(self, request, experiment):
        entity = request.entities[0]
        try:
            result = await self._measure(entity, request.experimentReference, experiment)
            measured = [ObservedPropertyValue(value=result["measured"][each.targetProperty.identifier], property=each)
                        for each in experiment.observedProperties
                        if result["measured"].get(each.targetProperty.identifier) is not None]
            kept = {name: result[name] for name in ("checksum", "file", "reason", "started_at", "finished_at")}
            answer = ValidMeasurementResult(entityIdentifier=entity.identifier, measurements=measured, metadata=kept)
            status = MeasurementRequestStateEnum.SUCCESS
        except Exception as error:  # whatever it is, ado keeps the reason and may ask again
            reason = str(getattr(error, "cause", None) or error)  # Ray's own text is a traceback
            self.log.warning("%s: %s", entity.identifier, reason)
            answer = InvalidMeasurementResult(entityIdentifier=entity.identifier, reason=reason or repr(error),
                                              experimentReference=request.experimentReference)
            status = MeasurementRequestStateEnum.FAILED
        request.status = status
        request.measurements = (answer,)
        await self._stateUpdateQueue.put_async(request, block=False)

    async def _measure(self, entity, reference, experiment):
        parameters = self._parameters.model_dump()
        folder, options = parameters.pop("results"), parameters.pop("options")
        known = [result.metadata.get("checksum") for result in entity.measurement_results]
        wanted = resources_for(experiment.propertyValuesFromEntity(entity))
        measure = functools.partial(measure_on_node.options(**wanted).remote,
                                    space_of(entity, reference, parameters), folder, options, known)
        if wanted["num_gpus"]:
            return await measure()
        async with self._cores:
            return await measure()
