-- The tables of version 8: a gate has several rows.

-- Each process that claims or takes shares the row of its number, and whoever changes the queue
-- holds all of them. The row that was there is the first.
ALTER TABLE hwheel.gate ADD COLUMN slot int NOT NULL DEFAULT 0,
	DROP CONSTRAINT gate_pkey, ADD PRIMARY KEY (queue, slot);

UPDATE hwheel.settings SET version = 8;
