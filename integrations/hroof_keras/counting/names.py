"""Op types that compute nothing: views, plumbing, moves; and the plain name of a rewritten op."""

from __future__ import annotations

import re
from functools import cache

_PREFIXES = ("_MklNative", "_Mkl", "_")
_DATASET = re.compile(r"Dataset(?:V\d+)?$")


@cache
def plain(op: str) -> str:
    """Type of an op without the prefixes of its library variant: ``_MklNativeFusedConv2D`` → ``FusedConv2D``."""
    for prefix in _PREFIXES:
        if op.startswith(prefix) and len(op) > len(prefix):
            return op[len(prefix) :]
    return op


def makes_dataset(op: str) -> bool:
    """Whether an op of the input pipeline makes a handle of a dataset: ``RangeDataset``, ``BatchDatasetV2``."""
    return _DATASET.search(op) is not None


def words(text: str) -> frozenset[str]:
    """The distinct words of a text."""
    return frozenset(text.split())


VIEWS = words(
    """
    Reshape Squeeze ExpandDims Identity IdentityN ReadVariableOp StopGradient PreventGradient Snapshot
    EnsureShape Bitcast Enter RefEnter Exit RefExit NextIteration RefNextIteration Merge RefMerge Switch
    SwitchN RefSwitch LoopCond Placeholder PlaceholderWithDefault PlaceholderV2 Arg DeviceArg Retval
    DeviceRetval ArrayToList ListToArray DebugGradientIdentity EagerConst
    """
)
"""Ops whose results only refer to what was there: nothing moves."""

NOTHING = words(
    """
    NoOp ControlTrigger Const HostConst ImmutableConst Shape ShapeN Size Rank VarHandleOp VariableV2
    VarIsInitializedOp IsVariableInitialized VariableShape DestroyResourceOp
    DestroyTemporaryVariable TemporaryVariable BroadcastGradientArgs BroadcastArgs ConcatOffset
    TensorListGetItem TensorListPopBack TensorListFromTensor TensorListSetItem TensorListPushBack
    TensorListReserve TensorListLength TensorListElementShape TensorListPushBackBatch TensorListResize
    EmptyTensorList TensorListConcatLists TensorListSplit TensorMapSize EmptyTensorMap
    TensorArrayV3 TensorArraySizeV3 TensorArrayCloseV3 TensorArrayGradV3
    StackV2 StackPushV2 StackPopV2 StackCloseV2 AnonymousSeedGenerator DeleteSeedGenerator
    DummySeedGenerator AnonymousRandomSeedGenerator DeleteRandomSeedGenerator StatelessRandomGetKeyCounter
    StatelessRandomGetAlg StatelessRandomGetKeyCounterAlg RngReadAndSkip RngSkip DeleteIterator
    AnonymousIteratorV2 AnonymousIteratorV3 AnonymousIterator Iterator IteratorV2 IteratorGetNext
    IteratorGetNextSync IteratorGetNextAsOptional IteratorToStringHandle IteratorFromStringHandle
    IteratorFromStringHandleV2 IteratorGetDevice ExperimentalIteratorGetDevice IteratorGetModelProto
    MakeIterator OneShotIterator SerializeIterator DeserializeIterator
    OptionalHasValue OptionalGetValue OptionalNone OptionalFromValue
    MultiDeviceIterator AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 MultiDeviceIteratorInit
    MultiDeviceIteratorFromStringHandle MultiDeviceIteratorToStringHandle DeleteMultiDeviceIterator
    MultiDeviceIteratorGetNextFromShard Assert Print PrintV2 StringFormat Timestamp
    XlaLaunch XlaLaunchV2 XlaRun XlaCompile StatefulPartitionedCall PartitionedCall RemoteCall
    SymbolicGradient While StatelessWhile If StatelessIf Case StatelessCase For
    BatchFunction FakeParam HashTableV2 MutableHashTableV2 CollectiveInitializeCommunicator
    CollectiveAssignGroupV2 MergeV2Checkpoints ToBool GuaranteeConst HostSend HostRecv Send Recv
    """
)
"""Plumbing: handles, shapes, lists of references, iterators, and calls whose bodies run as nodes or as
compiled instructions of their own.

``Send`` and ``Recv`` pass a reference on where both ends are one device; between devices they copy.
"""

MOVES = words(
    """
    Cast Copy CopyHost DeepCopy Concat ConcatV2 Slice StridedSlice StridedSliceGrad Split SplitV Pack Unpack
    Tile Transpose ConjugateTranspose Pad PadV2 MirrorPad Gather GatherV2 GatherNd ResourceGather
    ResourceGatherNd Select SelectV2 Where Equal NotEqual Less LessEqual Greater GreaterEqual
    ApproximateEqual LogicalAnd LogicalOr LogicalNot BitwiseAnd BitwiseOr BitwiseXor Invert
    LeftShift RightShift IsNan IsInf IsFinite CheckNumerics CheckNumericsV2 All Any Fill ZerosLike OnesLike
    Empty InplaceUpdate OneHot Reverse ReverseV2 ReverseSequence Roll TopK TopKV2 InTopK
    InTopKV2 NthElement Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 ListDiff
    LowerBound UpperBound Bucketize Bincount DenseBincount SparseBincount RaggedBincount
    SpaceToDepth DepthToSpace SpaceToBatch SpaceToBatchND BatchToSpace BatchToSpaceND ExtractImagePatches
    ExtractVolumePatches ResizeNearestNeighbor DynamicPartition DynamicStitch ParallelDynamicStitch
    MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiag
    MatrixSetDiagV2 MatrixSetDiagV3 MatrixBandPart Diag DiagPart BroadcastTo InvertPermutation
    TensorScatterUpdate TensorStridedSliceUpdate ScatterUpdate ResourceScatterUpdate ResourceScatterNdUpdate
    ResourceStridedSliceAssign AssignVariableOp Assign AssignVariableXlaConcatND
    Real Imag Complex TensorListStack TensorListGather TensorListConcat TensorListConcatV2
    TensorListScatter TensorListScatterV2 TensorListScatterIntoExistingList TensorArrayReadV3
    TensorArrayWriteV3 TensorArrayGatherV3 TensorArrayScatterV3 TensorArrayConcatV3 TensorArraySplitV3
    RandomUniform RandomUniformInt RandomStandardNormal TruncatedNormal ParameterizedTruncatedNormal
    RandomShuffle RandomGamma RandomPoisson RandomPoissonV2 Multinomial StatelessMultinomial
    StatelessRandomUniform StatelessRandomUniformV2 StatelessRandomUniformInt StatelessRandomUniformIntV2
    StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomNormal
    StatelessRandomNormalV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 StatelessShuffle
    StatelessRandomGammaV2 StatelessRandomGammaV3 StatelessRandomBinomial StatelessRandomPoisson
    StatefulUniform StatefulUniformInt StatefulUniformFullInt StatefulStandardNormal StatefulStandardNormalV2
    StatefulTruncatedNormal StatefulRandomBinomial SparseToDense SparseReshape SparseReorder SparseSlice
    SparseFillEmptyRows RaggedRange RaggedTensorToTensor RaggedTensorToSparse RaggedTensorFromVariant
    RaggedTensorToVariant RaggedGather LookupTableFindV2 LookupTableSizeV2 AsString StringToHashBucketFast
    StringToNumber QuantizeV2 Dequantize
    """
)
"""Ops that move, compare, order, round to a format or draw, and compute no FLOP."""
