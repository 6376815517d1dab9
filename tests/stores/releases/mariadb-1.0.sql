/*M!999999\- enable the sandbox mode */ 
-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)
--
-- Host: localhost    Database: ids
-- ------------------------------------------------------
-- Server version	10.11.19-MariaDB-0+deb12u1-log

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET @OLD_CHARACTER_SET_RESULTS=@@CHARACTER_SET_RESULTS */;
/*!40101 SET @OLD_COLLATION_CONNECTION=@@COLLATION_CONNECTION */;
/*!40101 SET NAMES utf8mb4 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;

--
-- Table structure for table `leaf_alloc`
--

DROP TABLE IF EXISTS `leaf_alloc`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leaf_alloc` (
  `biz_tag` varchar(128) NOT NULL DEFAULT '',
  `max_id` bigint(20) NOT NULL DEFAULT 1,
  `step` int(11) NOT NULL,
  `description` varchar(256) DEFAULT NULL,
  `update_time` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
  PRIMARY KEY (`biz_tag`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='leafd-65f5eba9bec01c1b';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leaf_alloc`
--

LOCK TABLES `leaf_alloc` WRITE;
/*!40000 ALTER TABLE `leaf_alloc` DISABLE KEYS */;
INSERT INTO `leaf_alloc` VALUES
('orders',9001,1000,NULL,'2026-11-25 18:10:39');
/*!40000 ALTER TABLE `leaf_alloc` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leaf_workerid_alloc`
--

DROP TABLE IF EXISTS `leaf_workerid_alloc`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leaf_workerid_alloc` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `ip` varchar(127) DEFAULT NULL,
  `port` varchar(127) DEFAULT NULL,
  `ip_port` varchar(127) NOT NULL,
  `max_timestamp` bigint(20) DEFAULT NULL,
  `create_time` timestamp NULL DEFAULT current_timestamp(),
  `update_time` timestamp NULL DEFAULT NULL ON UPDATE current_timestamp(),
  PRIMARY KEY (`id`),
  UNIQUE KEY `ip_port` (`ip_port`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leaf_workerid_alloc`
--

LOCK TABLES `leaf_workerid_alloc` WRITE;
/*!40000 ALTER TABLE `leaf_workerid_alloc` DISABLE KEYS */;
/*!40000 ALTER TABLE `leaf_workerid_alloc` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_claim`
--

DROP TABLE IF EXISTS `leafd_claim`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_claim` (
  `tag` varbinary(512) NOT NULL,
  `end_id` bigint(20) NOT NULL,
  `claimed_ms` bigint(20) NOT NULL,
  `first_id` bigint(20) NOT NULL,
  `stride` int(11) NOT NULL,
  `generation` bigint(20) NOT NULL,
  `host` varchar(64) NOT NULL,
  `name` varchar(255) NOT NULL,
  `holds_from` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`tag`,`end_id`,`claimed_ms`),
  KEY `leafd_claim_age` (`claimed_ms`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_claim`
--

LOCK TABLES `leafd_claim` WRITE;
/*!40000 ALTER TABLE `leafd_claim` DISABLE KEYS */;
INSERT INTO `leafd_claim` VALUES
('orders',1001,1795630239288,1,1,6186438810376490893,'3c7aa9ec9336c3731bbea844f0145b86','vm',NULL),
('orders',9001,1795630239300,1001,1,6186438810376490893,'3c7aa9ec9336c3731bbea844f0145b86','vm',NULL);
/*!40000 ALTER TABLE `leafd_claim` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_host`
--

DROP TABLE IF EXISTS `leafd_host`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_host` (
  `host` varchar(64) NOT NULL,
  `start_token` varchar(64) NOT NULL,
  `started` timestamp NOT NULL DEFAULT current_timestamp(),
  `written` bigint(20) NOT NULL DEFAULT 0,
  PRIMARY KEY (`host`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_host`
--

LOCK TABLES `leafd_host` WRITE;
/*!40000 ALTER TABLE `leafd_host` DISABLE KEYS */;
INSERT INTO `leafd_host` VALUES
('3c7aa9ec9336c3731bbea844f0145b86','287aa733e488fb3e2ba501ddd04b8a49','2026-11-25 18:10:39',5);
/*!40000 ALTER TABLE `leafd_host` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_layout`
--

DROP TABLE IF EXISTS `leafd_layout`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_layout` (
  `name` varbinary(512) NOT NULL,
  `definition` varchar(255) NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_layout`
--

LOCK TABLES `leafd_layout` WRITE;
/*!40000 ALTER TABLE `leafd_layout` DISABLE KEYS */;
INSERT INTO `leafd_layout` VALUES
('snowflake','time_bits=41 worker_bits=10 sequence_bits=12 unit_ms=1 epoch_ms=1288834974657');
/*!40000 ALTER TABLE `leafd_layout` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_meta`
--

DROP TABLE IF EXISTS `leafd_meta`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_meta` (
  `name` varchar(64) NOT NULL,
  `value` varchar(9000) NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_meta`
--

LOCK TABLES `leafd_meta` WRITE;
/*!40000 ALTER TABLE `leafd_meta` DISABLE KEYS */;
INSERT INTO `leafd_meta` VALUES
('format','2'),
('history','settled	7a9b800fdb611265	hostname=vm port=31138 server_id=31138 server_uid=EWX+LA1HIVAo038H4lionvr7448= database=ids 6fbc2d4352c9dc18 2026-11-25 18:10:37 2026-11-25 18:10:37 2026-11-25 18:10:37.180726'),
('identity','83dac5f7-e8fb-11f1-874e-02fc00000001'),
('right','0 3aca15dc5a862515'),
('role','');
/*!40000 ALTER TABLE `leafd_meta` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_tag`
--

DROP TABLE IF EXISTS `leafd_tag`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_tag` (
  `tag` varbinary(512) NOT NULL,
  `generation` bigint(20) NOT NULL DEFAULT 0 WITHOUT SYSTEM VERSIONING,
  `ceiling` bigint(20) DEFAULT NULL WITHOUT SYSTEM VERSIONING,
  `strict` int(11) NOT NULL DEFAULT 0 WITHOUT SYSTEM VERSIONING,
  `masked` varbinary(512) DEFAULT NULL WITHOUT SYSTEM VERSIONING,
  `highest_end` bigint(20) NOT NULL DEFAULT 0 WITHOUT SYSTEM VERSIONING,
  `role_version` bigint(20) NOT NULL DEFAULT -1 WITHOUT SYSTEM VERSIONING,
  PRIMARY KEY (`tag`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin WITH SYSTEM VERSIONING;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_tag`
--

LOCK TABLES `leafd_tag` WRITE;
/*!40000 ALTER TABLE `leafd_tag` DISABLE KEYS */;
INSERT INTO `leafd_tag` VALUES
('',0,NULL,0,NULL,0,-1),
('orders',6186438810376490893,9223372036854775807,0,NULL,9001,0);
/*!40000 ALTER TABLE `leafd_tag` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_worker`
--

DROP TABLE IF EXISTS `leafd_worker`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_worker` (
  `worker` bigint(20) NOT NULL,
  `holder` varchar(255) DEFAULT NULL,
  `name` varchar(255) DEFAULT NULL,
  `incarnation` varchar(255) DEFAULT NULL,
  `bound` bigint(20) NOT NULL,
  `seen` bigint(20) NOT NULL,
  `written` bigint(20) NOT NULL,
  PRIMARY KEY (`worker`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_worker`
--

LOCK TABLES `leafd_worker` WRITE;
/*!40000 ALTER TABLE `leafd_worker` DISABLE KEYS */;
INSERT INTO `leafd_worker` VALUES
(145,'3c7aa9ec9336c3731bbea844f0145b86','vm','stopped-287aa733e488fb3e2ba501ddd04b8a49',1795630299320,1795630239324,1795630239330);
/*!40000 ALTER TABLE `leafd_worker` ENABLE KEYS */;
UNLOCK TABLES;

--
-- Table structure for table `leafd_worker_taken`
--

DROP TABLE IF EXISTS `leafd_worker_taken`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `leafd_worker_taken` (
  `worker` bigint(20) NOT NULL,
  `since` bigint(20) NOT NULL,
  `taken` bigint(20) NOT NULL,
  `holder` varchar(255) NOT NULL,
  `name` varchar(255) NOT NULL,
  `incarnation` varchar(255) NOT NULL,
  PRIMARY KEY (`worker`,`since`,`taken`)
) ENGINE=InnoDB DEFAULT CHARSET=ascii COLLATE=ascii_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Dumping data for table `leafd_worker_taken`
--

LOCK TABLES `leafd_worker_taken` WRITE;
/*!40000 ALTER TABLE `leafd_worker_taken` DISABLE KEYS */;
INSERT INTO `leafd_worker_taken` VALUES
(145,0,1795630239316,'3c7aa9ec9336c3731bbea844f0145b86','vm','287aa733e488fb3e2ba501ddd04b8a49');
/*!40000 ALTER TABLE `leafd_worker_taken` ENABLE KEYS */;
UNLOCK TABLES;
/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;
/*!40101 SET CHARACTER_SET_RESULTS=@OLD_CHARACTER_SET_RESULTS */;
/*!40101 SET COLLATION_CONNECTION=@OLD_COLLATION_CONNECTION */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

-- Dump completed on 2026-11-25 18:10:39
