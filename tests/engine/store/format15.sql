PRAGMA application_id = 1097692274;
PRAGMA user_version = 15;
BEGIN TRANSACTION;
CREATE TABLE comparisons (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    created REAL NOT NULL
, ammeter TEXT);
INSERT INTO "comparisons" VALUES('46e10995cb0f','Old sweep',1.79543776856716680526e+09,'0.1.0');
CREATE TABLE diagnoses (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    experiment TEXT NOT NULL,
    device_name TEXT NOT NULL,
    run TEXT REFERENCES runs (id) ON DELETE SET NULL,
    parts TEXT NOT NULL,
    problem TEXT,
    ended REAL
, ammeter TEXT);
INSERT INTO "diagnoses" VALUES('numerics-1',1,1.79543776855701351161e+09,'{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp16","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":0,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}','a card','run-1','["map", "nan"]','{"kind":"out-of-memory","message":"It did not fit.","remedy":"Use a smaller batch.","key":null,"value":null,"allowed":null}',1.79543776855970096595e+09,'0.1.0');
CREATE TABLE diagnosis_parts (
    diagnosis TEXT NOT NULL REFERENCES diagnoses (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (diagnosis, name)
);
INSERT INTO "diagnosis_parts" VALUES('numerics-1','map','{"part":"map","modules":[],"operations":[{"module":"fc","name":"aten.mm","direction":"forward","inputs":[],"outputs":[],"count":1,"seconds":0.0,"moved_bytes":0,"is_cast":false,"by_autocast":false}],"attributed_fraction":1.0,"seconds":0.0,"notes":[]}');
INSERT INTO "diagnosis_parts" VALUES('numerics-1','nan','{"part":"nan","first":null,"from_step":0,"steps":0,"reproduced":0,"skipped":0,"least_scale":"Infinity","last_scale":null,"trouble_step":null,"sentence":"All numbers are finite."}');
CREATE TABLE events (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (run, position)
);
CREATE TABLE outlines (
    run TEXT NOT NULL,
    position INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, position),
    FOREIGN KEY (run, position) REFERENCES samples (run, position) ON DELETE CASCADE
);
CREATE TABLE pictures (
    hash TEXT PRIMARY KEY,
    side INTEGER NOT NULL,
    count INTEGER NOT NULL,
    jpeg BLOB NOT NULL
);
CREATE TABLE probe_trials (
    probe TEXT NOT NULL REFERENCES probes (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    trial TEXT NOT NULL,
    budget_mib REAL NOT NULL,
    PRIMARY KEY (probe, position)
);
INSERT INTO "probe_trials" VALUES('limit-1',0,'{"batch_size":8,"fits":true,"peak_mib":100.0,"reserved_mib":null,"seconds":0.0,"steps":3,"cause":null,"note":null,"uncompiled":false}',128.0);
INSERT INTO "probe_trials" VALUES('limit-1',1,'{"batch_size":16,"fits":false,"peak_mib":null,"reserved_mib":null,"seconds":0.0,"steps":0,"cause":"memory","note":null,"uncompiled":false}',128.0);
INSERT INTO "probe_trials" VALUES('limit-2',0,'{"batch_size":8,"fits":true,"peak_mib":100.0,"reserved_mib":null,"seconds":0.0,"steps":3,"cause":null,"note":null,"uncompiled":false}',128.0);
CREATE TABLE probes (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    series TEXT NOT NULL,
    created REAL NOT NULL,
    experiment TEXT NOT NULL,
    granularity INTEGER NOT NULL,
    margin_fraction REAL NOT NULL,
    device_name TEXT NOT NULL,
    result TEXT
, ammeter TEXT);
INSERT INTO "probes" VALUES('limit-1',1,'limit-1',1.7954377685547029972e+09,'{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp32","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":3,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}',8,0.2,'a card','{"precision":"fp32","largest_batch":8,"verified":true,"first_failure":16,"recommended_batch":null,"peak_mib":100.0,"budget_mib":128.0,"bound_by":"memory","trials":[],"seconds":0.0,"note":null}','0.1.0');
INSERT INTO "probes" VALUES('limit-2',2,'limit-1',1.79543776855681204798e+09,'{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp16","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":0,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}',8,0.2,'a card',NULL,'0.1.0');
CREATE TABLE resting_queues (
    owner TEXT PRIMARY KEY
);
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    name TEXT NOT NULL,
    status TEXT NOT NULL
        CHECK (status IN ('queued', 'running', 'finished', 'stopped', 'failed', 'interrupted')),
    created REAL NOT NULL,
    started REAL,
    ended REAL,
    experiment TEXT NOT NULL,
    environment TEXT,
    summary TEXT,
    problem TEXT,
    detail TEXT NOT NULL DEFAULT '',
    comparison TEXT REFERENCES comparisons (id) ON DELETE SET NULL,
    label TEXT,
    total_steps INTEGER,
    owner TEXT NOT NULL
, tags TEXT NOT NULL DEFAULT '[]', note TEXT NOT NULL DEFAULT '', deleted REAL, pictures TEXT REFERENCES pictures (hash) ON DELETE SET NULL, sweep TEXT REFERENCES sweeps (id) ON DELETE SET NULL, cell INTEGER, repeat INTEGER, is_pinned INTEGER NOT NULL DEFAULT 0, colour TEXT, folder TEXT NOT NULL DEFAULT '');
INSERT INTO "runs" VALUES('run-1',1,'Old','finished',1.79543776851238322256e+09,1.79543776855444240573e+09,NULL,'{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp32","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":3,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}',NULL,NULL,NULL,'',NULL,NULL,NULL,'{"host":"gone","boot":"gone","pid":1,"started":1.0}','[]','',NULL,NULL,NULL,NULL,NULL,0,NULL,'');
CREATE TABLE samples (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    names TEXT NOT NULL,
    rows INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, position)
);
CREATE TABLE sweep_cells (
    sweep TEXT NOT NULL REFERENCES sweeps (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    left_out TEXT,
    is_held INTEGER NOT NULL DEFAULT 0,
    pilot TEXT,
    problem TEXT,
    PRIMARY KEY (sweep, position)
);
INSERT INTO "sweep_cells" VALUES('sweep-1',0,NULL,0,NULL,NULL);
INSERT INTO "sweep_cells" VALUES('sweep-1',1,NULL,0,NULL,NULL);
CREATE TABLE sweeps (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    name TEXT NOT NULL,
    grid TEXT NOT NULL,
    plan TEXT NOT NULL,
    device_name TEXT NOT NULL,
    comparison TEXT REFERENCES comparisons (id) ON DELETE SET NULL,
    owner TEXT,
    spent_seconds REAL NOT NULL DEFAULT 0,
    problem TEXT,
    ended REAL
, ammeter TEXT);
INSERT INTO "sweeps" VALUES('sweep-1',1,1.79543776856719946863e+09,'Old sweep','{"base":{"model":"mlp"},"axes":[{"key":"batch_size","values":[8,16],"overrides":[]}]}','{"repeats":1,"precision_percent":null,"time_limit_seconds":null}','a card','46e10995cb0f',NULL,0.0,NULL,NULL,'0.1.0');
CREATE TABLE timing_sides (
    timing TEXT NOT NULL REFERENCES timings (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    experiment TEXT NOT NULL,
    run TEXT REFERENCES runs (id) ON DELETE SET NULL,
    profile TEXT,
    problem TEXT,
    PRIMARY KEY (timing, position)
);
INSERT INTO "timing_sides" VALUES('profile-1',0,'{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp32","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":3,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}','run-1','{"device_type":"cpu","steps":3,"samples":8,"step_ms":4.0,"recorded_ms":4.4,"bar":{"parts":[{"part":"matrix","ms":3.0},{"part":"host","ms":1.0}]},"format":"fp32","validation":null,"matrix_units":null,"threads":null,"cores":null,"kernels":[],"operations":[],"modules":[],"flops":null,"limits":null,"energy":null,"advice":[],"notes":[],"trace":null,"disturbance":null}',NULL);
INSERT INTO "timing_sides" VALUES('profile-1',1,'{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp16","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":0,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}',NULL,NULL,'{"kind":"out-of-memory","message":"It did not fit.","remedy":"Use a smaller batch.","key":null,"value":null,"allowed":null}');
CREATE TABLE timings (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    device_name TEXT NOT NULL,
    ended REAL
, ammeter TEXT);
INSERT INTO "timings" VALUES('profile-1',1,1.79543776856313157079e+09,'a card',1.7954377685635237693e+09,'0.1.0');
CREATE TABLE tunings (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    created REAL NOT NULL,
    tuning TEXT NOT NULL,
    device_name TEXT NOT NULL,
    owner TEXT,
    problem TEXT,
    ended REAL
, ammeter TEXT);
INSERT INTO "tunings" VALUES('tune-1',1,1.79543776856567645068e+09,'{"experiment":{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp32","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":3,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}},"plan":{"kinds":["precision","recipe","checkpointing","batch","loader"],"changes_batch":false,"guard":"alike","repeats":3,"time_limit_seconds":null},"memory_cap_gib":null,"phase":"halving","candidates":0,"rounds":0,"trials":[{"round":1,"changes":{},"steps":5,"seconds":1.0,"samples_per_second":100.0,"peak_mib":null,"final_loss":null,"problem":null,"words":"FP32, plain","steps_per_epoch":null,"is_disturbed":false,"left_out":{}}],"leaders":[],"winner":null,"winner_changes":{},"gains":[],"proof":null,"proofs":[],"not_tried":[],"left_out":{},"runs":1,"seconds":0.0}','a card',NULL,NULL,NULL,'0.1.0');
CREATE TABLE waiting (
    key TEXT PRIMARY KEY,
    position REAL NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    request TEXT NOT NULL,
    is_held INTEGER NOT NULL DEFAULT 0,
    owner TEXT NOT NULL,
    created REAL NOT NULL
);
INSERT INTO "waiting" VALUES('search-1',1.0,'search','small-cnn, FP32 and FP16 AMP','{"key":"search-1","sides":[["FP32",{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp32","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":3,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}],["FP16 AMP",{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp16","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":0,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}]],"granularity":4,"margin_fraction":0.3}',0,'{"host":"gone","boot":"gone","pid":1,"started":1.0}',1.79543776857397985452e+09);
INSERT INTO "waiting" VALUES('diagnosis-1',2.0,'diagnosis','small-cnn, FP16 AMP','{"key":"diagnosis-1","experiment":{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp16","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":0,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}},"parts":["ladder"],"run_id":"run-1","steps":10}',0,'{"host":"gone","boot":"gone","pid":1,"started":1.0}',1.79543776857398271564e+09);
INSERT INTO "waiting" VALUES('timing-1',3.0,'timing','small-cnn, FP32','{"key":"timing-1","experiments":[{"model":"small-cnn","code":null,"overrides":[],"dataset":"fashion","path":null,"image_size":null,"num_classes":null,"samples":12800,"sequence_length":512,"precision":"fp32","batch_size":64,"epochs":1,"steps":null,"device":"auto","seed":3,"memory_cap_gib":null,"label_smoothing":0.0,"on_nan":"continue","measure":{"warmup_steps":10,"block_steps":10,"range_every":0},"optimizer":{"name":"adamw","learning_rate":0.001,"weight_decay":0.0,"momentum":0.0,"fused":null},"schedule":{"name":"constant","warmup_steps":0,"final_fraction":0.0,"rise_fraction":0.3,"decay_epochs":30,"decay_factor":0.1},"scaler":{"mode":"auto","init_scale":65536.0,"growth_factor":2.0,"backoff_factor":0.5,"growth_interval":2000},"step":{"recipe":"plain","gradient_accumulation":1,"clip_norm":null,"fp32_modules":[],"activation_checkpointing":false,"autocast_tf32":false},"data":{"on_device":null,"inputs":"","targets":"","workers":0,"prefetch":2,"pin_memory":true,"persistent_workers":true,"augment":false,"skip_broken":false},"validation":{"every":1,"limit":null},"checkpoint":{"best":false,"last":false,"every":1,"rewind_every":0}}],"run_ids":["run-1"]}',0,'{"host":"gone","boot":"gone","pid":1,"started":1.0}',1.79543776857398414614e+09);
INSERT INTO "waiting" VALUES('sweep-1',4.0,'sweep','Old sweep','{"key":"sweep-1","name":"Old sweep"}',0,'{"host":"gone","boot":"gone","pid":1,"started":1.0}',1.79543776857398605347e+09);
INSERT INTO "waiting" VALUES('tune-1',5.0,'tuning','mlp','{"key":"tune-1","model":"mlp"}',0,'{"host":"gone","boot":"gone","pid":1,"started":1.0}',1.79543776857398748396e+09);
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_by_comparison ON runs (comparison);
CREATE INDEX runs_by_pictures ON runs (pictures) WHERE pictures IS NOT NULL
;
CREATE INDEX diagnoses_by_run ON diagnoses (run) WHERE run IS NOT NULL;
CREATE INDEX timing_sides_by_run ON timing_sides (run) WHERE run IS NOT NULL
;
CREATE UNIQUE INDEX runs_by_cell ON runs (sweep, cell, repeat) WHERE sweep IS NOT NULL AND deleted IS NULL
;
COMMIT;
